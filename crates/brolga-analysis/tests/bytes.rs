//! Which bytes of integers are where.

use brolga_analysis::bits::bytes::bytes_of;
use brolga_testing::function;

/// For each instruction of a body what is known of its result: operand, mask and distance of each
/// part.
fn bytes(body: &str) -> Vec<String> {
    // A lane of a shuffle may be of neither vector, which Cranelift's verifier refuses.
    let func = function(&format!(
        "function %f(i64, i64, i8, i32) -> i64 {{\nblock0(v0: i64, v1: i64, v2: i8, v3: i32):\n{body} }}"
    ));
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let known = insts.filter_map(|inst| bytes_of(&func, inst));
    known
        .map(|all| all.iter().map(|b| format!("{}:{:02x}{:+}", b.of, b.mask, b.up)).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn bytes_are_put_elsewhere() {
    let body = "v4 = iconst.i64 16
        v5 = ushr v0, v4
        v6 = sshr v0, v4
        v7 = ishl v0, v4
        v8 = uextend.i64 v2
        v9 = sextend.i64 v3
        v10 = ireduce.i32 v1
        v11 = iconst.i64 0xff00_00ff
        v12 = band v11, v1
        v13 = ishl v8, v4
        v14 = bor v8, v13
        return v14";
    let wanted =
        ["v0:3f+2", "v0:3f+2", "v0:fc-2", "v2:01+0", "v3:0f+0", "v1:0f+0", "v1:09+0", "v8:fc-2", "v8:01+0 v13:04+0"];
    assert_eq!(bytes(body), wanted);
}

#[test]
fn bytes_go_round_and_are_reversed() {
    let body = "v4 = iconst.i64 24
        v5 = rotr v0, v4
        v6 = rotl v0, v4
        v7 = iconst.i32 0
        v8 = rotr v3, v7
        v9 = bswap v3
        v10 = iconst.i64 12
        v11 = rotl v0, v10
        return v6";
    let wanted = ["v0:1f+3 v0:e0-5", "v0:07+5 v0:f8-3", "v3:0f+0", "v3:01+3 v3:02+1 v3:04-1 v3:08-3"];
    assert_eq!(bytes(body), wanted);
}

#[test]
fn what_is_not_known() {
    // Bits that are no bytes, and bytes of both operands.
    let body = "v4 = iconst.i64 12
        v5 = ushr v0, v4
        v6 = ishl v0, v1
        v7 = iconst.i64 0xfff
        v8 = band v0, v7
        v9 = band v0, v1
        v10 = bor v0, v1
        v11 = uextend.i64 v3
        v12 = iadd v11, v11
        return v12";
    assert_eq!(bytes(body), ["v3:0f+0"]);
}

#[test]
fn what_is_mixed_again_and_again_is_looked_at_for_a_while() {
    // Each operand twice: all ways through this are more than there are atoms.
    let mut body = "v4 = iconst.i64 8\n".to_owned();
    let mut v = 0;
    for k in (5..505).step_by(2) {
        body += &format!("v{k} = ushr v{v}, v4\nv{} = bxor v{v}, v{k}\n", k + 1);
        v = k + 1;
    }
    assert_eq!(bytes(&format!("{body}return v{v}")).len(), 250);
}

#[test]
fn lanes_are_put_elsewhere() {
    let body = "v4 = splat.i64x2 v0
        v5 = insertlane v4, v1, 1
        v6 = extractlane v5, 1
        v7 = bitcast.i8x16 little v4
        v8 = bitcast.i8x16 little v5
        v9 = shuffle v7, v8, [8 9 10 11 12 13 14 15 16 17 18 19 255 255 255 255]
        v10 = scalar_to_vector.i32x4 v3
        v11 = extractlane v10, 2
        return v6";
    let wanted = ["v0:ff+0 v0:ff00-8", "v4:ff+0 v1:ff00-8", "v5:ff+8", "v7:ff+8 v8:f00-8", "v3:0f+0", "v10:0f+8"];
    assert_eq!(bytes(body).iter().map(|b| b.as_str()).collect::<Vec<_>>(), wanted);
}
