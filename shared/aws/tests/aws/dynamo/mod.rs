//! Tables on the emulator, and tests of what the contract suite cannot cause.

mod faults;
mod trouble;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Intercept, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType, TableStatus,
};
use aws_sdk_dynamodb::{Client, Config, config};
use holdfast_aws::DynamoStore;
use holdfast_sim::SeededEntropy;
use tokio::runtime::{Builder, Runtime};

const MAX_WAIT: Duration = Duration::from_secs(60);
const KEYS: [(&str, &str); 5] = [
    ("sweep_shard", "look_at"),
    ("list_tenant", "listed"),
    ("list_url", "listed"),
    ("list_subscription", "listed"),
    ("list_state", "state_sort"),
];
const INDEXES: [&str; 5] = ["sweep", "by-tenant", "by-url", "by-subscription", "by-state"];

/// With its own threads, because the contract suite blocks several threads at once.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "tests have no other configuration")]
fn endpoint() -> String {
    std::env::var("HOLDFAST_AWS_ENDPOINT")
        .expect("HOLDFAST_AWS_ENDPOINT is not set: run infra/test, which starts the emulator")
}

fn config() -> config::Builder {
    Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(endpoint())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
}

/// A new table.
pub(crate) struct Table {
    pub(crate) client: Client,
    pub(crate) name: String,
}

impl Table {
    pub(crate) async fn create() -> Table {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let table = Table { client: Client::from_conf(config().build()), name };
        let request = table.client.create_table().table_name(&table.name);
        let request = request.billing_mode(BillingMode::PayPerRequest);
        let request = request.set_key_schema(Some(key_schema("pk", "sk")));
        let request = request.set_attribute_definitions(Some(attributes()));
        let indexes = INDEXES.iter().zip(KEYS).map(|(name, (hash, range))| index(name, hash, range));
        request.set_global_secondary_indexes(Some(indexes.collect())).send().await.unwrap();
        tokio::time::timeout(MAX_WAIT, table.wait_until_active()).await.unwrap();
        table
    }

    async fn wait_until_active(&self) {
        loop {
            let found = self.client.describe_table().table_name(&self.name).send().await.unwrap();
            if found.table().unwrap().table_status() == Some(&TableStatus::Active) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn store(&self) -> DynamoStore {
        self.store_by(self.client.clone())
    }

    /// A store whose requests and responses pass through an interceptor.
    pub(crate) fn store_through(&self, interceptor: impl Intercept + 'static) -> DynamoStore {
        self.store_by(Client::from_conf(config().interceptor(interceptor).build()))
    }

    fn store_by(&self, client: Client) -> DynamoStore {
        // Stores of the same table must not use the same marks.
        static SEEDS: AtomicU64 = AtomicU64::new(0);
        let entropy = SeededEntropy::new(SEEDS.fetch_add(1, Ordering::Relaxed) << 32);
        DynamoStore::new(client, &self.name, Arc::new(entropy))
    }
}

fn attributes() -> Vec<AttributeDefinition> {
    let lists = KEYS.iter().flat_map(|(hash, range)| [*hash, *range]);
    let names: BTreeSet<&str> = lists.chain(["pk", "sk"]).collect();
    let attributes = names.into_iter().map(|name| match name {
        "look_at" => (name, ScalarAttributeType::N),
        _ => (name, ScalarAttributeType::S),
    });
    attributes
        .map(|(name, kind)| {
            AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build().unwrap()
        })
        .collect()
}

fn key_schema(hash: &str, range: &str) -> Vec<KeySchemaElement> {
    let element =
        |name, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    vec![element(hash, KeyType::Hash), element(range, KeyType::Range)]
}

fn index(name: &str, hash: &str, range: &str) -> GlobalSecondaryIndex {
    let keys_only = Projection::builder().projection_type(ProjectionType::KeysOnly).build();
    GlobalSecondaryIndex::builder()
        .index_name(name)
        .set_key_schema(Some(key_schema(hash, range)))
        .projection(keys_only)
        .build()
        .unwrap()
}
