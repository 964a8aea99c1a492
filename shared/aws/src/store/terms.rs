use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

type Names = HashMap<String, String>;
type Values = HashMap<String, AttributeValue>;

/// The names and values that an expression refers to. Every name is written as `#name`, because many are reserved words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Terms {
    names: Names,
    values: Values,
}

impl Terms {
    pub(super) fn name(&mut self, name: &str) -> String {
        let placeholder = format!("#{name}");
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }

    pub(super) fn value(&mut self, label: &str, value: AttributeValue) -> String {
        let placeholder = format!(":{label}");
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// `#name operator :label`.
    pub(super) fn compare(
        &mut self,
        name: &str,
        operator: &str,
        label: &str,
        value: AttributeValue,
    ) -> String {
        format!("{} {operator} {}", self.name(name), self.value(label, value))
    }

    pub(super) fn absent(&mut self, name: &str) -> String {
        format!("attribute_not_exists({})", self.name(name))
    }

    /// `None` instead of an empty map, which DynamoDB rejects.
    pub(super) fn into_maps(self) -> (Option<Names>, Option<Values>) {
        let names = Some(self.names).filter(|names| !names.is_empty());
        (names, Some(self.values).filter(|values| !values.is_empty()))
    }
}
