//! The keys of a table and of its indexes, as the table describes them.

use serde_json::Value;

use super::call::{Fields, list, text};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    pub partition: String,
    pub sort: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    pub name: String,
    pub keys: Keys,
    /// Only the keys are projected, and no other attribute can be read from it.
    pub keys_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    pub keys: Keys,
    pub indexes: Vec<Index>,
}

impl Schema {
    /// From the answer of `DescribeTable`.
    #[must_use]
    pub fn read(answer: &Value) -> Option<Schema> {
        let table = answer["Table"].as_object()?;
        let indexes = list(table, "GlobalSecondaryIndexes").iter().filter_map(Value::as_object);
        let indexes = indexes.map(|index| {
            let keys_only = index.get("Projection").is_some_and(|p| p["ProjectionType"] == "KEYS_ONLY");
            Some(Index { name: text(index, "IndexName").to_owned(), keys: Keys::read(index)?, keys_only })
        });
        Some(Schema { keys: Keys::read(table)?, indexes: indexes.collect::<Option<_>>()? })
    }

    #[must_use]
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name == name)
    }
}

impl Keys {
    fn read(described: &Fields) -> Option<Keys> {
        let of = |kind: &str| {
            let found = list(described, "KeySchema").iter().find(|key| key["KeyType"] == kind)?;
            found["AttributeName"].as_str().map(str::to_owned)
        };
        Some(Keys { partition: of("HASH")?, sort: of("RANGE") })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.partition.as_str()).chain(self.sort.as_deref())
    }
}

/// A table as the tests of this folder use it.
#[cfg(test)]
pub(super) fn example() -> Schema {
    let keys =
        |partition: &str, sort: &str| Keys { partition: partition.to_owned(), sort: Some(sort.to_owned()) };
    let index = Index { name: "by-url".to_owned(), keys: keys("list_url", "listed"), keys_only: true };
    Schema { keys: keys("pk", "sk"), indexes: vec![index] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_description_of_a_table_is_read() {
        let keys = |partition: &str, sort: &str| {
            json!([
                { "AttributeName": partition, "KeyType": "HASH" },
                { "AttributeName": sort, "KeyType": "RANGE" },
            ])
        };
        let answer = json!({ "Table": {
            "KeySchema": keys("pk", "sk"),
            "GlobalSecondaryIndexes": [{
                "IndexName": "by-url",
                "KeySchema": keys("list_url", "listed"),
                "Projection": { "ProjectionType": "KEYS_ONLY" },
            }],
        } });
        assert_eq!(Schema::read(&answer), Some(example()));
        assert_eq!(Schema::read(&json!({ "__type": "ResourceNotFoundException" })), None);
    }
}
