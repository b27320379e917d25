; What a function definition is and what it is called.
; Captures: @definition, @declarator (without body and specifiers), @body, @name, @parameters.
(function_definition
  declarator: (_) @declarator
  body: (compound_statement) @body) @definition

(function_declarator
  declarator: [
    (identifier) @name
    (field_identifier) @name
    (qualified_identifier) @name
    (destructor_name) @name
    (operator_name) @name
    (template_function) @name
    (parenthesized_declarator (identifier) @name)
  ]
  parameters: (parameter_list) @parameters)
