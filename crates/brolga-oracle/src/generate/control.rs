//! Random control flow: branches, switches, loops, and graphs of blocks without structure.
//!
//! **Question.** Which shapes of a control-flow graph may a derivative meet, and how does a random
//! program come by them without running for ever?
//!
//! **Answer.** A statement makes a region, whose arms hold statements of their own:
//!
//! - a branch, of which either arm may be nothing but an edge, or may leave the function;
//! - a jump table, some of whose entries are the same block;
//! - a loop that counts up, with its test at the top or at the bottom, and ways out of its middle;
//! - a graph of blocks that go to each other in any order, irreducible if it is entered at several.
//!   Each block takes fuel, and without fuel it goes to the exit.
//!
//! Beside these there are ways that are never taken, to a trap or to a loop without end, and blocks
//! that nothing leads to. Loops have a limit that is a small constant, seldom up to 2000, or an
//! integer cut to two bits.
//!
//! **Invariant.** Values of a region are cut from the scope when the region ends, except what its
//! exit block takes as parameters, and except what dominates the exit. All blocks of a switch or a
//! graph can be reached.
//!
//! **Cost.** The statements of a region come from those that the function has left.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, JumpTableData, TrapCode, Value, types};

use super::body::Body;
use super::feature::Feature;
use super::kind::Kind;
use super::sketch::Role;

impl Body<'_> {
    /// Kinds for the parameters of a block.
    fn some_kinds(&mut self, most: usize) -> Vec<Kind> {
        let groups = if self.can_call() { self.groups() } else { 0 };
        let pointers = self.has(Feature::Pointers);
        let n = self.source.between(0, most);
        let kinds = (0..n).map(|_| self.sketch.kind(self.source, groups));
        kinds.filter(|k| pointers || !k.is_address()).collect()
    }

    fn groups(&self) -> usize {
        self.sketch
            .functions
            .iter()
            .filter_map(|o| if let Role::Leaf { group } = o.role { Some(group + 1) } else { None })
            .max()
            .unwrap_or(0)
    }

    /// End an arm: go to `target`, or leave the function. Whether it went.
    fn leave_to(&mut self, target: Block, kinds: &[Kind], may_return: bool) -> bool {
        if may_return && self.has(Feature::EarlyReturns) && self.source.chance(20) {
            self.finish();
            return false;
        }
        if self.source.chance(6) {
            self.dead_end();
        }
        let args = self.block_args(kinds);
        self.at_end().ins().jump(target, &args);
        true
    }

    /// A way that is never taken, to a trap or to a loop without end.
    fn dead_end(&mut self) {
        let n = self.small_int();
        let eight = self.at_end().ins().iconst(types::I32, 8);
        let never = self.at_end().ins().icmp(IntCC::Equal, n, eight);
        let (dead, go_on) = (self.make_block(&[]).0, self.make_block(&[]).0);
        self.at_end().ins().brif(never, dead, &[], go_on, &[]);
        let mark = self.scope.len();
        self.switch_to(dead);
        self.some_simple_statement();
        if self.source.chance(50) {
            self.at_end().ins().trap(TrapCode::unwrap_user(3));
        } else {
            let endless = self.make_block(&[]).0;
            self.at_end().ins().jump(endless, &[]);
            self.switch_to(endless);
            self.some_simple_statement();
            self.at_end().ins().jump(endless, &[]);
        }
        self.scope.truncate(mark);
        self.switch_to(go_on);
        if self.source.chance(30) {
            // A block that nothing leads to.
            let unreachable = self.make_block(&[]).0;
            let here = self.block;
            self.switch_to(unreachable);
            self.some_simple_statement();
            self.finish();
            self.block = here;
            self.scope.truncate(mark);
        }
    }

    /// Two ways that join again. Either may be nothing but an edge.
    pub(super) fn branch_statement(&mut self) {
        let kinds = self.some_kinds(3);
        let (join, params) = self.make_block(&kinds);
        let condition = self.condition();
        let mark = self.scope.len();
        self.nesting += 1;
        match self.source.weighted(&[(4, 0), (3, 1), (2, 2)]) {
            0 => {
                let (yes, no) = (self.make_block(&[]).0, self.make_block(&[]).0);
                self.at_end().ins().brif(condition, yes, &[], no, &[]);
                self.switch_to(yes);
                self.some_statements();
                let joins = self.leave_to(join, &kinds, true);
                self.scope.truncate(mark);
                self.switch_to(no);
                self.some_statements();
                self.leave_to(join, &kinds, joins);
            }
            1 => {
                let arm = self.make_block(&[]).0;
                let args = self.block_args(&kinds);
                if self.source.chance(50) {
                    self.at_end().ins().brif(condition, arm, &[], join, &args);
                } else {
                    self.at_end().ins().brif(condition, join, &args, arm, &[]);
                }
                self.scope.truncate(mark);
                self.switch_to(arm);
                self.some_statements();
                self.leave_to(join, &kinds, true);
            }
            _ => {
                let (a, b) = (self.block_args(&kinds), self.block_args(&kinds));
                self.at_end().ins().brif(condition, join, &a, join, &b);
            }
        }
        self.nesting -= 1;
        self.scope.truncate(mark);
        self.switch_to(join);
        self.scope.extend(params);
    }

    /// A jump table, some of whose entries are the same block.
    pub(super) fn switch_statement(&mut self) {
        let kinds = self.some_kinds(3);
        let (join, params) = self.make_block(&kinds);
        let n = self.source.between(1, 3);
        let arm_kinds: Vec<Vec<Kind>> = (0..n).map(|_| self.some_kinds(1)).collect();
        let arms: Vec<_> = arm_kinds.iter().map(|k| self.make_block(k)).collect();
        let selector = self.selector();
        let mut table = Vec::new();
        for _ in 0..self.source.between(2, 5) {
            let arm = self.source.below(n + 1);
            let (block, kinds) = if arm == n { (join, &kinds) } else { (arms[arm].0, &arm_kinds[arm]) };
            table.push((block, self.block_args(kinds)));
        }
        // Every arm can be reached: the last entry is the default.
        for (arm, kinds) in arms.iter().zip(&arm_kinds) {
            table.push((arm.0, self.block_args(kinds)));
        }
        self.br_table(selector, table);
        let mark = self.scope.len();
        self.nesting += 1;
        let mut joins = false;
        for (i, (block, arm_params)) in arms.into_iter().enumerate() {
            self.switch_to(block);
            self.scope.extend(arm_params);
            self.some_statements();
            joins |= self.leave_to(join, &kinds, joins || i + 1 < n);
            self.scope.truncate(mark);
        }
        self.nesting -= 1;
        self.switch_to(join);
        self.scope.extend(params);
    }

    fn selector(&mut self) -> Value {
        if self.source.chance(70) { self.small_int() } else { self.pick(Kind::I32).value }
    }

    /// A jump table; the last entry is the default.
    fn br_table(&mut self, selector: Value, mut table: Vec<(Block, Vec<BlockArg>)>) {
        let mut call = |(block, args): (Block, Vec<BlockArg>)| self.func.dfg.block_call(block, args.iter());
        let default = table.pop().map(&mut call).expect("there is an entry");
        let entries: Vec<_> = table.into_iter().map(call).collect();
        let table = self.func.dfg.jump_tables.push(JumpTableData::new(default, &entries));
        self.at_end().ins().br_table(selector, table);
    }

    /// A loop that counts up, with a test at the top or at the bottom.
    pub(super) fn loop_statement(&mut self) {
        let counter = self.source.choose(&[Kind::I32, Kind::I64]);
        let ty = counter.ty();
        let limit = if self.source.chance(50) {
            // Long loops make the record long.
            let long = self.nesting == 0 && self.source.chance(4);
            let n = if long { self.source.between(100, 2000) } else { self.source.below(5) };
            let n = n as i64;
            self.at_end().ins().iconst(ty, n)
        } else {
            let n = self.pick(counter).value;
            let three = self.at_end().ins().iconst(ty, 3);
            self.at_end().ins().band(n, three)
        };
        let mut kinds = vec![counter];
        kinds.extend(self.some_kinds(4));
        let exit_kinds = self.some_kinds(3);
        let (header, params) = self.make_block(&kinds);
        let (exit, exit_params) = self.make_block(&exit_kinds);
        let zero = self.at_end().ins().iconst(ty, 0);
        let mut args = vec![BlockArg::Value(zero)];
        args.extend(self.block_args(&kinds[1..]));
        self.at_end().ins().jump(header, &args);

        self.nesting += 1;
        self.switch_to(header);
        let i = params[0].value;
        self.scope.extend(params);
        let visible;
        if self.source.chance(65) {
            if self.source.chance(40) {
                self.some_statements();
            }
            // What is in scope here dominates the exit.
            let more = self.at_end().ins().icmp(IntCC::SignedLessThan, i, limit);
            let body = self.make_block(&[]).0;
            let out = self.block_args(&exit_kinds);
            visible = self.scope.len();
            self.at_end().ins().brif(more, body, &[], exit, &out);
            self.switch_to(body);
            self.some_statements();
            if self.source.chance(25) {
                self.break_to(exit, &exit_kinds);
            }
            if self.source.chance(15) && self.has(Feature::EarlyReturns) {
                self.maybe_return();
            }
            let args = self.next_round(i, counter, &kinds);
            self.at_end().ins().jump(header, &args);
        } else {
            self.some_statements();
            let args = self.next_round(i, counter, &kinds);
            let out = self.block_args(&exit_kinds);
            visible = self.scope.len();
            let more = self.at_end().ins().icmp(IntCC::SignedLessThan, i, limit);
            self.at_end().ins().brif(more, header, &args, exit, &out);
        }
        self.nesting -= 1;
        self.scope.truncate(visible);
        self.switch_to(exit);
        self.scope.extend(exit_params);
    }

    fn next_round(&mut self, i: Value, counter: Kind, kinds: &[Kind]) -> Vec<BlockArg> {
        let one = self.at_end().ins().iconst(counter.ty(), 1);
        let next = self.at_end().ins().iadd(i, one);
        let mut args = vec![BlockArg::Value(next)];
        args.extend(self.block_args(&kinds[1..]));
        args
    }

    fn break_to(&mut self, exit: Block, kinds: &[Kind]) {
        let condition = self.condition();
        let go_on = self.make_block(&[]).0;
        let out = self.block_args(kinds);
        self.at_end().ins().brif(condition, exit, &out, go_on, &[]);
        self.switch_to(go_on);
    }

    fn maybe_return(&mut self) {
        let condition = self.condition();
        let (leave, go_on) = (self.make_block(&[]).0, self.make_block(&[]).0);
        self.at_end().ins().brif(condition, leave, &[], go_on, &[]);
        let mark = self.scope.len();
        self.switch_to(leave);
        self.finish();
        self.scope.truncate(mark);
        self.switch_to(go_on);
    }

    /// Blocks that go to each other in any order, each taking fuel, until there is none. The graph
    /// is irreducible if it can be entered at several blocks.
    pub(super) fn graph_statement(&mut self) {
        let n = self.source.between(2, 4);
        let exit_kinds = self.some_kinds(3);
        let (exit, exit_params) = self.make_block(&exit_kinds);
        let shared = self.some_kinds(4);
        let mut states = Vec::new();
        for _ in 0..n {
            let state_kinds = if self.source.chance(60) { shared.clone() } else { self.some_kinds(4) };
            let kinds: Vec<Kind> = [Kind::I32].into_iter().chain(state_kinds).collect();
            let (block, params) = self.make_block(&kinds);
            states.push((block, kinds, params));
        }
        let fuel = self.source.between(1, 7) as i64;
        let fuel = self.at_end().ins().iconst(types::I32, fuel);
        let targets: Vec<(Block, Vec<Kind>)> = states.iter().map(|(b, k, _)| (*b, k.clone())).collect();
        let mark = self.scope.len();
        self.dispatch(&targets, fuel, true);
        self.nesting += 1;
        for (block, _, params) in states {
            self.scope.truncate(mark);
            self.switch_to(block);
            let fuel = params[0].value;
            // Fuel is not an argument of the program.
            self.scope.extend(&params[1..]);
            self.some_statements();
            let one = self.at_end().ins().iconst(types::I32, 1);
            let left = self.at_end().ins().isub(fuel, one);
            let zero = self.at_end().ins().iconst(types::I32, 0);
            let more = self.at_end().ins().icmp(IntCC::SignedGreaterThan, left, zero);
            let go_on = self.make_block(&[]).0;
            let out = self.block_args(&exit_kinds);
            self.at_end().ins().brif(more, go_on, &[], exit, &out);
            self.switch_to(go_on);
            if self.source.chance(10) && self.has(Feature::EarlyReturns) {
                self.maybe_return();
            }
            self.dispatch(&targets, left, false);
        }
        self.nesting -= 1;
        self.scope.truncate(mark);
        self.switch_to(exit);
        self.scope.extend(exit_params);
    }

    /// Go to any of the states. Where all must be reachable, every one is among the targets.
    fn dispatch(&mut self, states: &[(Block, Vec<Kind>)], fuel: Value, all: bool) {
        let go = |body: &mut Self, i: usize| {
            let (block, kinds) = &states[i];
            let mut args = vec![BlockArg::Value(fuel)];
            args.extend(body.block_args(&kinds[1..]));
            (*block, args)
        };
        if all || self.source.chance(30) {
            let selector = self.selector();
            let mut table: Vec<_> = Vec::new();
            for _ in 0..self.source.below(3) {
                let i = self.source.below(states.len());
                table.push(go(self, i));
            }
            for i in 0..states.len() {
                table.push(go(self, i));
            }
            self.br_table(selector, table);
        } else if self.source.chance(60) {
            let condition = self.condition();
            let (i, j) = (self.source.below(states.len()), self.source.below(states.len()));
            let ((a, a_args), (b, b_args)) = (go(self, i), go(self, j));
            self.at_end().ins().brif(condition, a, &a_args, b, &b_args);
        } else {
            let i = self.source.below(states.len());
            let (block, args) = go(self, i);
            self.at_end().ins().jump(block, &args);
        }
    }
}
