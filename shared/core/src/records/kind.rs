use super::{
    Attempt, AttemptSummaries, AuditEntry, DeathNote, DeliveryRecord, EventRecord, HistoryEntry, JobRecord,
    KeyRecord, LoggedDelivery, MinuteRecord, OperatorGuard, ParkedPointer, Record, ReplayRecord, StepBatch,
    SubjectEntry, Subscription, SubscriptionChange, SubscriptionGuard, TenantRecord, TenantVersion,
    UrlListEntry, UrlRecord,
};

/// One kind of record, so that reads and writes can be typed.
pub trait Kind: Sized {
    /// `None`: it is another kind.
    fn from_record(record: Record) -> Option<Self>;

    fn into_record(self) -> Record;
}

impl Kind for Record {
    fn from_record(record: Record) -> Option<Self> {
        Some(record)
    }

    fn into_record(self) -> Record {
        self
    }
}

macro_rules! kinds {
    ($($kind:ident => $variant:ident),+ $(,)?) => {$(
        impl Kind for $kind {
            fn from_record(record: Record) -> Option<Self> {
                match record {
                    Record::$variant(record) => Some(record),
                    _ => None,
                }
            }

            fn into_record(self) -> Record {
                Record::$variant(self)
            }
        }
    )+};
}

kinds! {
    EventRecord => Event,
    DeliveryRecord => Delivery,
    LoggedDelivery => Logged,
    Attempt => Attempt,
    ParkedPointer => Parked,
    UrlRecord => Url,
    UrlListEntry => UrlListEntry,
    HistoryEntry => History,
    Subscription => Subscription,
    SubscriptionGuard => SubscriptionGuard,
    SubscriptionChange => SubscriptionChange,
    TenantVersion => TenantVersion,
    JobRecord => Job,
    KeyRecord => Key,
    OperatorGuard => OperatorGuard,
    TenantRecord => Tenant,
    ReplayRecord => Replay,
    StepBatch => StepBatch,
    MinuteRecord => Minute,
    AttemptSummaries => AttemptSummaries,
    DeathNote => DeathNote,
    AuditEntry => Audit,
    SubjectEntry => Subject,
}
