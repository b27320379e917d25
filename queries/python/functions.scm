; Captures: @definition, @name, @parameters; @scope with @scope.name, which come before the name;
; @comment.
(class_definition name: (identifier) @scope.name) @scope

(function_definition
  name: (identifier) @name
  parameters: (parameters) @parameters) @definition

(decorated_definition
  definition: (function_definition
    name: (identifier) @name
    parameters: (parameters) @parameters)) @definition

(comment) @comment
