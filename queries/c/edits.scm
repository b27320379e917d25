; What the calibration edits act on, one capture per kind of place.
(return_statement) @return
(if_statement) @if
(while_statement) @while
(assignment_expression left: (identifier) right: (_)) @assignment
(binary_expression operator: ["<" "<=" ">" ">="]) @comparison
(conditional_expression condition: (_) @choice)

; Names that are certainly variables of the function, never macros.
(declaration declarator: (identifier) @local)
(declaration declarator: (pointer_declarator (identifier) @local))
(init_declarator declarator: (identifier) @local)
(init_declarator declarator: (pointer_declarator (identifier) @local))
(parameter_declaration declarator: (identifier) @local)
(parameter_declaration declarator: (pointer_declarator (identifier) @local))
