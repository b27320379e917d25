; Captures: @definition, @name, @parameters; @scope with @scope.name, which come before the name;
; @comment.
(impl_item
  type: [
    (type_identifier) @scope.name
    (scoped_type_identifier name: (type_identifier) @scope.name)
    (generic_type type: (type_identifier) @scope.name)
    (generic_type type: (scoped_type_identifier name: (type_identifier) @scope.name))
  ]) @scope

(trait_item name: (type_identifier) @scope.name) @scope

(mod_item
  name: (identifier) @scope.name
  body: (declaration_list)) @scope

(function_item
  name: (identifier) @name
  parameters: (parameters) @parameters) @definition

[(line_comment) (block_comment)] @comment
