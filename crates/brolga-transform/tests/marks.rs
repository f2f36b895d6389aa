//! What the transform and the passes of `brolga-clif` know independently of each other is the same.

use cranelift_codegen::ir::Opcode;

#[test]
fn what_is_pure_for_a_pass_is_pure_for_the_rules() {
    for &op in Opcode::all() {
        assert_eq!(brolga_clif::pure::is_pure(op), brolga_rules::is_pure(op), "{op}");
    }
}
