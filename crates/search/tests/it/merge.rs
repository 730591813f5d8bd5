//! Tests how a root merges results, and the JSON format of results.

use curtail_search::{Hit, SearchResponse, merge_top_k};
use proptest::prelude::*;

/// Generates hits with distinct ids and scores that often tie, distributed over shards.
fn dealt() -> impl Strategy<Value = (Vec<Hit>, Vec<Vec<Hit>>)> {
    let scores = prop::collection::vec((0u8..6, 0usize..5), 0..60);
    scores.prop_map(|draws| {
        let mut shards = vec![Vec::new(); 5];
        let mut all = Vec::new();
        for (id, (score, shard)) in (0..).zip(draws) {
            let hit = Hit { id, score: f32::from(score) / 3.0, title: format!("title {id}") };
            shards[shard].push(hit.clone());
            all.push(hit);
        }
        (all, shards)
    })
}

proptest! {
    #[test]
    fn the_merge_is_the_best_of_all((mut all, shards) in dealt(), k in 0usize..70) {
        all.sort_by(Hit::order);
        all.truncate(k);
        prop_assert_eq!(merge_top_k(shards, k), all);
    }

    #[test]
    fn leaves_that_cut_at_k_lose_nothing((_, shards) in dealt(), k in 0usize..20) {
        let cut = shards.iter().map(|shard| merge_top_k(vec![shard.clone()], k)).collect();
        prop_assert_eq!(merge_top_k(cut, k), merge_top_k(shards, k));
    }

    #[test]
    fn the_order_of_shards_does_not_matter((_, mut shards) in dealt(), k in 0usize..20) {
        let merged = merge_top_k(shards.clone(), k);
        shards.reverse();
        shards.iter_mut().for_each(|shard| shard.reverse());
        prop_assert_eq!(merge_top_k(shards, k), merged);
    }

    #[test]
    fn scores_survive_json_bit_by_bit(bits in 0u32..0x7f80_0000, id: u64, title: String) {
        let hits = vec![Hit { id, score: f32::from_bits(bits), title }];
        let answer = SearchResponse { shard: 3, matched: id, hits };
        let json = serde_json::to_string(&answer).expect("a response is JSON");
        let back: SearchResponse = serde_json::from_str(&json).expect("and comes back");
        prop_assert_eq!(back.hits[0].score.to_bits(), bits);
        prop_assert_eq!(back, answer);
    }
}

#[test]
fn the_json_of_an_answer_is_small_and_fixed() {
    let hits = vec![Hit { id: 7, score: 1.5, title: "ed".to_owned() }];
    let json = serde_json::to_string(&SearchResponse { shard: 0, matched: 12, hits });
    let expected = r#"{"shard":0,"matched":12,"hits":[{"id":7,"score":1.5,"title":"ed"}]}"#;
    assert_eq!(json.expect("a response is JSON"), expected);
}
