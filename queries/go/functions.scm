; Captures: @definition, @name, @parameters; @scope.name of the receiver, which comes before the
; name; @comment.
(function_declaration
  name: (identifier) @name
  parameters: (parameter_list) @parameters
  body: (block)) @definition

(method_declaration
  receiver: (parameter_list
    (parameter_declaration
      type: [
        (type_identifier) @scope.name
        (pointer_type (type_identifier) @scope.name)
        (generic_type type: (type_identifier) @scope.name)
        (pointer_type (generic_type type: (type_identifier) @scope.name))
      ]))
  name: (field_identifier) @name
  parameters: (parameter_list) @parameters
  body: (block)) @definition

(comment) @comment
