//! What a change of its subscription means for a delivery that is under way.

use crate::records::{DeliveryRecord, Reason, Subscription};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is where it should be.
    Stay,
    /// It goes where its subscription is now, waiting or parked as before.
    Move(Box<DeliveryRecord>),
    /// Nobody wants it any more.
    Die(Reason),
}

/// The subscription, if it wants its deliveries; else why they are dead.
pub fn wanting(subscription: Option<&Subscription>) -> Result<&Subscription, Reason> {
    match subscription {
        None => Err(Reason::Unsubscribed),
        Some(subscription) if !subscription.active => Err(Reason::Inactive),
        Some(subscription) => Ok(subscription),
    }
}

/// `subscription` is the delivery's own, as it is now; `None` if it was deleted.
#[must_use]
pub fn fate(delivery: &DeliveryRecord, subscription: Option<&Subscription>) -> Fate {
    if !delivery.state.is_live() {
        return Fate::Stay;
    }
    match wanting(subscription) {
        Err(reason) => Fate::Die(reason),
        Ok(subscription) if subscription.url_id == delivery.url_id => Fate::Stay,
        Ok(subscription) => {
            let mut moved = delivery.clone();
            moved.head_for(subscription);
            Fate::Move(Box::new(moved))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{DeliveryKey, EventKey, SubscriptionId, UrlId};
    use crate::records::{DeliveryState, NewDelivery, VERSION};
    use crate::rules::filter::Connector;
    use crate::rules::schedule::Schedule;
    use crate::time::Timestamp;

    fn at(url: &str, active: bool) -> Subscription {
        Subscription {
            v: VERSION,
            tenant: "default".into(),
            id: SubscriptionId::new([1; 16]),
            url: url.to_owned(),
            url_id: UrlId::of(url),
            event_types: vec!["*".to_owned()],
            filters: Vec::new(),
            filter_connector: Connector::And,
            auth_token: None,
            description: None,
            active,
            secrets: Vec::new(),
            created_at: Timestamp::ZERO,
        }
    }

    fn delivery() -> DeliveryRecord {
        let new = NewDelivery {
            key: DeliveryKey {
                tenant: "default".into(),
                event_key: EventKey::of("e", Timestamp::ZERO),
                subscription_id: SubscriptionId::new([1; 16]),
            },
            event_id: "e".into(),
            event_type: "a".into(),
            accepted_at: Timestamp::ZERO,
            url_id: UrlId::of("https://old.test/"),
            url: "https://old.test/".into(),
        };
        DeliveryRecord::new(new, &Schedule::default())
    }

    #[test]
    fn a_live_delivery_follows_its_subscription() {
        let mut parked = delivery();
        parked.park();
        for live in [delivery(), parked] {
            assert_eq!(fate(&live, None), Fate::Die(Reason::Unsubscribed));
            assert_eq!(fate(&live, Some(&at("https://new.test/", false))), Fate::Die(Reason::Inactive));
            assert_eq!(fate(&live, Some(&at("https://old.test/", true))), Fate::Stay);
            let new = at("https://new.test/", true);
            let moved = DeliveryRecord { url_id: new.url_id.clone(), url: new.url.clone(), ..live.clone() };
            assert_eq!(fate(&live, Some(&new)), Fate::Move(Box::new(moved)));
        }
    }

    #[test]
    fn what_is_over_stays_as_it_is() {
        let mut over = delivery();
        over.die(Reason::Exhausted, Timestamp::ZERO, std::time::Duration::ZERO);
        assert_eq!(over.state, DeliveryState::Dead);
        for subscription in [None, Some(&at("https://new.test/", true))] {
            assert_eq!(fate(&over, subscription), Fate::Stay);
        }
    }
}
