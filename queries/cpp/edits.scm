; What the calibration edits act on, one capture per kind of place.
(return_statement) @return
(if_statement) @if
(while_statement) @while
(assignment_expression left: (identifier) right: (_)) @assignment
(binary_expression operator: ["<" "<=" ">" ">="]) @comparison
(conditional_expression condition: (_) @choice)

; Variables of the function that are numbers: what holds for these need not hold for objects.
(declaration type: [(primitive_type) (sized_type_specifier)] declarator: (identifier) @local)
(declaration
  type: [(primitive_type) (sized_type_specifier)]
  declarator: (init_declarator declarator: (identifier) @local))
