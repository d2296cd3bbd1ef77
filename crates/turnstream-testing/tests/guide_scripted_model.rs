//! A model without HTTP.

use std::sync::Arc;

use turnstream::{Event, Model, Request};
use turnstream_testing::{Gate, ScriptedModel, events::Reply};

/// The application: shows text as it comes, and says when it was cut.
async fn show(model: Arc<dyn Model>, question: &str, mut screen: impl FnMut(&str)) {
    let mut turn = model.stream(&Request::new().user(question));
    while let Some(event) = turn.next().await {
        match event {
            Ok(Event::TextDelta(delta)) => screen(&delta.text),
            Ok(_) => {}
            Err(_) => screen(" (cut)"),
        }
    }
}

#[tokio::test]
async fn text_is_shown_before_the_turn_is_over() {
    let gate = Gate::new();
    let model = ScriptedModel::new()
        .turn(Reply::new().text(["It is "]).gate(&gate).text(["on its way."]))
        .turn(Reply::new().text(["It is"]).error("overloaded_error", "Busy."));

    let (sender, screen) = std::sync::mpsc::channel();
    let send = move |text: &str| sender.send(text.to_owned()).unwrap();
    let first = tokio::spawn(show(Arc::new(model.clone()), "Where is it?", send));
    gate.reached().await;
    assert_eq!(screen.try_iter().collect::<String>(), "It is ");
    gate.open();
    first.await.unwrap();
    assert_eq!(screen.try_iter().collect::<String>(), "on its way.");

    let mut shown = String::new();
    show(Arc::new(model), "And now?", |text| shown.push_str(text)).await;
    assert_eq!(shown, "It is (cut)");
}
