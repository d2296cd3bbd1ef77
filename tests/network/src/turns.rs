//! Reading turns to their end, and a little further.

use turnstream::{Request, TurnStream};

use crate::{clients::Clients, fixtures::Fixtures, oracle::Item, plan::Plan};

/// What came of a turn.
#[derive(Debug)]
pub struct Turn {
    /// Everything that it gave, the end among it.
    pub items: Vec<Item>,
    /// How many requests were sent.
    pub attempts: u32,
}

/// Begins the turn of a plan; nothing is sent yet. `None` if there is no client for it.
pub fn begin(clients: &Clients, fixtures: &Fixtures, plan: &Plan) -> Option<TurnStream> {
    let client = clients.get(fixtures.get(plan.fixture)?.wire, plan.fault)?;
    Some(client.stream(&Request::new().user(plan.message())))
}

/// Reads the turn of a plan until `None` has come twice, for `None` is for ever.
pub async fn run(clients: &Clients, fixtures: &Fixtures, plan: &Plan) -> Option<Turn> {
    run_until(begin(clients, fixtures, plan)?, usize::MAX).await
}

/// Reads so many items of a turn at most. `None` if something comes after its end.
pub async fn run_until(mut turn: TurnStream, most: usize) -> Option<Turn> {
    let mut items = Vec::new();
    while items.len() < most {
        let Some(item) = turn.next().await else { break };
        items.push(item);
    }
    if items.len() < most && turn.next().await.is_some() {
        return None;
    }
    Some(Turn { items, attempts: turn.attempts() })
}
