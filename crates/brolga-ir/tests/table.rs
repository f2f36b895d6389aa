//! Tables: what maps in the order of insertion do, with entities as keys.

use brolga_ir::map::{IndexMap, Table};
use cranelift_codegen::ir::Block;

/// Whether both have the same in the same order, and tell the same of each key.
fn same(table: &Table<Block, u32>, map: &IndexMap<Block, u32>) -> bool {
    table.iter().eq(map.iter())
        && table.len() == map.len()
        && table.is_empty() == map.is_empty()
        && (0..map.len() + 1).all(|i| table.get_index(i) == map.get_index(i).map(|x| x.1))
        && (0..20).map(Block::from_u32).all(|b| {
            table.get(&b) == map.get(&b)
                && table.get_index_of(&b) == map.get_index_of(&b)
                && table.contains_key(&b) == map.contains_key(&b)
        })
}

#[test]
fn they_are_maps_in_the_order_of_insertion() {
    let (mut state, mut replaced, mut retained) = (1_u64, 0, 0);
    let mut random = move |below: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % below
    };
    let (mut table, mut map) = (Table::default(), IndexMap::default());
    for n in 0..2000 {
        let key = Block::from_u32(random(16));
        match random(8) {
            0 => {
                let bit = random(4);
                table.retain(|k: &Block, v: &mut u32| (k.as_u32() + *v) >> bit & 1 == 0);
                map.retain(|k: &Block, v: &mut u32| (k.as_u32() + *v) >> bit & 1 == 0);
                retained += usize::from(!map.is_empty());
            }
            1 => {
                let more: Vec<_> = (0..random(4)).map(|i| (Block::from_u32(random(16)), n + i)).collect();
                table.extend(more.clone());
                map.extend(more);
            }
            2 => {
                table.values_mut().for_each(|v| *v += 1);
                map.values_mut().for_each(|v| *v += 1);
            }
            _ => {
                let before = table.insert(key, n);
                assert_eq!(before, map.insert(key, n));
                replaced += usize::from(before.is_some());
            }
        }
        assert!(same(&table, &map), "{table:?} is not {map:?}");
    }
    assert!(replaced > 100 && retained > 50, "{replaced} {retained}");
    assert!(same(&table.iter().map(|(k, v)| (*k, *v)).collect(), &map));
    assert!(table.into_iter().eq(map));
}

#[test]
fn a_table_is_appended_to_another_from_somewhere_on() {
    let pairs = |all: std::ops::Range<u32>| all.map(|n| (Block::from_u32(n * 7 % 19), n));
    let (mut table, mut map) = (Table::with_capacity(2, 3), IndexMap::default());
    table.extend(pairs(5..9));
    map.extend(pairs(5..9));
    table.append_tail(pairs(10..17).collect(), 3);
    map.extend(pairs(13..17));
    assert!(same(&table, &map), "{table:?} is not {map:?}");
    table.append_tail(pairs(1..2).collect(), 1);
    table.append_tail(Table::default(), 0);
    assert!(same(&table, &map), "{table:?} is not {map:?}");
    // In the same order there is something else for each, and a table beside it has a place for
    // each.
    let other = table.map(|k, v| k.as_u32() * 100 + v);
    assert!(same(&other, &map.iter().map(|(k, v)| (*k, k.as_u32() * 100 + v)).collect()));
    let beside = table.one_each::<u8>();
    assert!(table.keys().all(|k| (k.as_u32() as usize) < beside.keys().len()));
}
