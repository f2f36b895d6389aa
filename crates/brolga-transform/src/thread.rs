//! Blocks of a derived graph that do nothing but jump on.
//!
//! **Problem.** Halves are joined, edges get blocks of their own for what a phi asks for, and [`crate::prune`] empties blocks whose work nobody
//! needs. What is left of many is a jump, and each costs as much as several instructions in whatever comes after: it is lowered, verified, and
//! joined again ([`crate::tidy`]) or compiled.
//!
//! **Answer.** Who leads to a block without parameters, instructions and arguments of its jump leads to where that jump goes instead.
//!
//! **Invariants.** All other blocks keep their order and their ids. The entry stays, and so does a circle of empty blocks: it is an endless loop.

use brolga_ir::BlockId;
use brolga_ir::block::{CfgBlocks, Term};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;

/// Take blocks that are empty out of a graph.
pub fn thread(graph: &mut CfgBlocks) {
    let mut next: SecondaryMap<BlockId, PackedOption<BlockId>> = SecondaryMap::new();
    let mut any = false;
    for block in graph.blocks.values().skip(1) {
        if let Term::Jump(to) = &block.term
            && block.params.is_empty()
            && block.insts.is_empty()
            && to.args.is_empty()
            // Not into a circle: each is threaded as it comes, so that one of a circle finds itself.
            && end(&mut next, to.block) != block.id
        {
            next[block.id] = to.block.into();
            any = true;
        }
    }
    if !any {
        return;
    }
    for block in graph.blocks.values_mut() {
        match &mut block.term {
            Term::Switch(_, cases) => cases.iter_mut().for_each(|(_, to)| *to = end(&mut next, *to)),
            term => term.targets_mut().into_iter().for_each(|to| to.block = end(&mut next, to.block)),
        }
    }
    graph.blocks.retain(|id, _| next[*id].is_none());
}

/// Where empty blocks lead; whoever asks next finds it sooner.
fn end(next: &mut SecondaryMap<BlockId, PackedOption<BlockId>>, from: BlockId) -> BlockId {
    let mut last = from;
    while let Some(to) = next[last].expand() {
        last = to;
    }
    let mut at = from;
    while let Some(to) = next[at].expand() {
        next[at] = last.into();
        at = to;
    }
    last
}

#[cfg(test)]
mod tests {
    use brolga_ir::block::Ids;
    use brolga_ir::lift::lift;

    use super::thread;

    /// Blocks that are left of a function, with where they lead to, by position.
    fn left(text: &str) -> Vec<Vec<usize>> {
        let func = cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}")).remove(0);
        let (mut graph, _) = lift(&func, "f", &mut Ids::default());
        thread(&mut graph);
        let at = |b| graph.blocks.get_index_of(&b).expect("a successor is a block");
        graph.blocks.values().map(|b| b.term.successors().into_iter().map(at).collect()).collect()
    }

    #[test]
    fn empty_blocks_go_and_what_they_pass_on_stays() {
        let found = left(
            "function %f(i64) -> i64 fast {
            block0(v0: i64):
                brif v0, block1, block2
            block1:
                jump block3
            block2:
                jump block5(v0)
            block3:
                jump block4
            block4:
                v1 = iadd v0, v0
                jump block5(v1)
            block5(v2: i64):
                return v2
            }",
        );
        assert_eq!(found, [vec![2, 1], vec![3], vec![3], vec![]]);
    }

    #[test]
    fn an_endless_loop_stays_one() {
        let found = left(
            "function %f(i64) fast {
            block0(v0: i64):
                brif v0, block1, block3
            block1:
                jump block2
            block2:
                jump block1
            block3:
                jump block3
            }",
        );
        assert_eq!(found, [vec![1, 2], vec![1], vec![2]]);
    }
}
