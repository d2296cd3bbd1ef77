//! The shop's tools: async handlers over state that they share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use turnstream::{Tool, ToolError};

/// What the shop knows. A real one would ask its database.
#[derive(Debug, Default)]
pub(crate) struct Shop {
    orders: HashMap<&'static str, Order>,
    tickets: Mutex<Vec<CreateTicket>>,
}

#[derive(Debug, Clone, Serialize)]
struct Order {
    status: &'static str,
    last_seen: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    line_items: Vec<&'static str>,
}

/// Looks an order up.
#[derive(Debug, Deserialize, JsonSchema)]
struct LookupOrder {
    /// The order's id, for example A-4471.
    #[schemars(length(max = 16))]
    order_id: String,
    /// Whether to list what was ordered.
    #[serde(default)]
    include_line_items: bool,
}

/// Opens a ticket.
#[derive(Debug, Deserialize, JsonSchema)]
struct CreateTicket {
    /// The order that it is about.
    #[schemars(length(max = 16))]
    order_id: String,
    /// One line.
    #[schemars(length(max = 80))]
    subject: String,
    /// What happened, and what is to be done.
    #[schemars(length(max = 400))]
    body: String,
    /// How urgent it is.
    #[serde(default)]
    priority: Priority,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Priority {
    Low,
    #[default]
    Normal,
    High,
}

impl Shop {
    /// A shop with two orders.
    pub(crate) fn new() -> Arc<Self> {
        let grinder = Order {
            status: "in transit",
            last_seen: "Zürich depot, Thursday",
            line_items: vec!["café grinder"],
        };
        let papers = Order {
            status: "delivered",
            last_seen: "front door, yesterday",
            line_items: vec!["filter papers"],
        };
        Arc::new(Self {
            orders: HashMap::from([("A-4471", grinder), ("A-4502", papers)]),
            tickets: Mutex::default(),
        })
    }

    async fn find(&self, order_id: &str) -> Result<Order, ToolError> {
        let order = self.orders.get(order_id).cloned();
        order.ok_or_else(|| ToolError::new(format!("there is no order {order_id}")))
    }

    async fn open(&self, ticket: CreateTicket) -> String {
        // A poisoned list still holds every ticket that was opened.
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.push(ticket);
        format!("T-{}", 1000 + tickets.len())
    }
}

/// `lookup_order`: reads only.
pub(crate) fn lookup_order(shop: Arc<Shop>) -> Tool {
    Tool::new("lookup_order").description("Looks an order up by its id.").handler(move |args: LookupOrder| {
        let shop = shop.clone();
        async move {
            let mut order = shop.find(&args.order_id).await?;
            if !args.include_line_items {
                order.line_items.clear();
            }
            Ok(json!(order))
        }
    })
}

/// `create_ticket`: writes, so its calls run one after the other.
pub(crate) fn create_ticket(shop: Arc<Shop>) -> Tool {
    Tool::new("create_ticket")
        .description("Opens a ticket for the people who can trace a parcel.")
        .sequential()
        .handler(move |ticket: CreateTicket| {
            let shop = shop.clone();
            async move {
                let priority = format!("{:?}", ticket.priority).to_lowercase();
                let (order, subject, words) =
                    (ticket.order_id.clone(), ticket.subject.clone(), ticket.body.split_whitespace().count());
                let id = shop.open(ticket).await;
                Ok(json!({ "ticket": id, "order": order, "subject": subject, "priority": priority, "words": words }))
            }
        })
}
