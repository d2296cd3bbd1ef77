//! The events do not depend on how the body is cut.

use turnstream::wire::End;

use crate::{
    events::{assert_same, decode_pieces, pieces},
    inputs::{Input, inputs},
    trial::{Trial, try_all},
};

/// The sizes of the pieces in which every body is fed.
const PIECES: [usize; 6] = [1, 2, 3, 7, 61, 1024];
/// How many single cuts are tried in a long body, and how often it is cut in several places.
const SAMPLE: usize = 128;

#[test]
fn cuts_do_not_matter() {
    try_all("cuts", inputs(), |input| &input.name, check);
}

fn check(input: &Input, trial: &mut Trial) {
    let body = &input.body;
    let mut cut = |cuts: &[usize]| {
        let what = || match cuts {
            [one] => format!("cut at {one}"),
            [one, two, ..] => format!("cut {} times, at {one}, {two}, ...", cuts.len()),
            [] => "whole".to_owned(),
        };
        trial.holds(what, || {
            let got = decode_pieces(input.decoder(), pieces(body, cuts), End::Closed);
            assert_same(&got, &input.whole);
        });
    };
    cut(&[]);
    for size in PIECES {
        cut(&(size..body.len()).step_by(size).collect::<Vec<_>>());
    }
    if !input.is_long() {
        (1..body.len()).for_each(|offset| cut(&[offset]));
        return;
    }
    // Whatever goes wrong in the middle of a line goes wrong in small bodies, too. What a long one adds are
    // buffers that grow and are moved.
    let mut random = fastrand::Rng::with_seed(body.len() as u64);
    for _ in 0..SAMPLE {
        cut(&[random.usize(1..body.len())]);
        let mut cuts: Vec<usize> = (0..random.usize(2..60)).map(|_| random.usize(1..body.len())).collect();
        cuts.sort_unstable();
        cut(&cuts);
    }
    trial.is_sampled();
}
