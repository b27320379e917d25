; Captures: @definition, @name, @parameters; @scope with @scope.name, which come before the name;
; @comment.
(class_declaration name: (identifier) @scope.name) @scope
(interface_declaration name: (identifier) @scope.name) @scope
(enum_declaration name: (identifier) @scope.name) @scope
(record_declaration name: (identifier) @scope.name) @scope

(method_declaration
  name: (identifier) @name
  parameters: (formal_parameters) @parameters
  body: (block)) @definition

(constructor_declaration
  name: (identifier) @name
  parameters: (formal_parameters) @parameters) @definition

[(line_comment) (block_comment)] @comment
