; What a function definition is and what it is called.
; Captures: @definition, @declarator (without body and specifiers), @body, @name, @parameters.
(function_definition
  declarator: (_) @declarator
  body: (compound_statement) @body) @definition

(function_declarator
  declarator: [
    (identifier) @name
    (parenthesized_declarator (identifier) @name)
    (parenthesized_declarator (ms_call_modifier) (identifier) @name)
  ]
  parameters: (parameter_list) @parameters)
