//! [`Toolset`]: the tools of a loop, by name.

use std::collections::HashSet;

use turnstream_core::{Error, ErrorKind, Text, ToolSpec};

use crate::tool::Tool;

/// Tools, in the order in which the model is told of them.
///
/// ```
/// use turnstream_tools::{Tool, Toolset};
///
/// let tools: Toolset = [Tool::new("lookup_order"), Tool::new("create_ticket")].into_iter().collect();
/// assert_eq!(tools.names().collect::<Vec<_>>(), ["lookup_order", "create_ticket"]);
/// assert!(tools.tool("lookup_order").is_some());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Toolset {
    tools: Vec<Tool>,
}

impl Toolset {
    /// No tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    pub fn add(&mut self, tool: Tool) {
        self.tools.push(tool);
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name().as_str())
    }

    /// What the model is told of them, in order.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(Tool::spec).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Checks these tools, and `others` that have no handler here, against what every provider refuses: names
    /// out of pattern, and names that stand twice.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`], naming the tool.
    pub fn check(&self, others: &[ToolSpec]) -> Result<(), Error> {
        self.tools.iter().try_for_each(Tool::check)?;
        others.iter().try_for_each(ToolSpec::check_name)?;
        let names = self.tools.iter().map(Tool::name).chain(others.iter().map(|spec| &spec.name));
        let mut seen = HashSet::<&Text>::new();
        for name in names {
            if !seen.insert(name) {
                let message = format!("two tools are called `{name}`: the model could not tell them apart");
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
        Ok(())
    }
}

impl FromIterator<Tool> for Toolset {
    fn from_iter<I: IntoIterator<Item = Tool>>(tools: I) -> Self {
        Self { tools: tools.into_iter().collect() }
    }
}

impl Extend<Tool> for Toolset {
    fn extend<I: IntoIterator<Item = Tool>>(&mut self, tools: I) {
        self.tools.extend(tools);
    }
}

impl IntoIterator for Toolset {
    type Item = Tool;
    type IntoIter = std::vec::IntoIter<Tool>;

    fn into_iter(self) -> Self::IntoIter {
        self.tools.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stand_twice_or_out_of_pattern_are_refused() {
        let check = |names: &[&str], others: &[&str]| {
            let tools: Toolset = names.iter().map(|name| Tool::new(*name)).collect();
            let others: Vec<_> = others.iter().map(|name| ToolSpec::new(*name)).collect();
            tools.check(&others).map_err(|error| error.kind())
        };
        assert_eq!(check(&["a", "b"], &["c"]), Ok(()));
        assert_eq!(check(&["a", "a"], &[]), Err(ErrorKind::Config));
        assert_eq!(check(&["a"], &["a"]), Err(ErrorKind::Config));
        assert_eq!(check(&["srv.get file"], &[]), Err(ErrorKind::Config));
        assert_eq!(check(&[], &[""]), Err(ErrorKind::Config));
    }
}
