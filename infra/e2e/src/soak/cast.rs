//! Who takes part: tenants, their subscriptions, and how the receiver of each behaves.

pub(super) const TENANTS: usize = 3;
/// Enough that the event is fanned out by a job.
const FAN_OUT: usize = 120;

/// The first segment of an event type. Each event goes to all subscriptions of its tenant with the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Order,
    User,
    Invoice,
    Fan,
}

impl Family {
    pub(super) const SMALL: [Family; 3] = [Family::Order, Family::User, Family::Invoice];

    fn name(self) -> &'static str {
        match self {
            Family::Order => "order",
            Family::User => "user",
            Family::Invoice => "invoice",
            Family::Fan => "fan",
        }
    }

    pub(super) fn event_type(self) -> String {
        format!("{}.created", self.name())
    }

    pub(super) fn pattern(self) -> String {
        format!("{}.*", self.name())
    }
}

/// What a receiver does until the calm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    Succeed,
    Fail,
    /// Never answers.
    Hang,
    /// Succeeds and fails in turns of some seconds.
    Flap,
    /// Refuses about a sixth of its events, always the same ones.
    RefuseShare,
    /// Answers every second request, about, with 429 or 503 and `retry-after`.
    Throttle,
    /// Closes every second connection, about, without an answer.
    CloseEarly,
}

/// A subscription. Its place in the cast is its number, and the first part of its paths.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub(super) tenant: usize,
    pub(super) family: Family,
    pub(super) behaviour: Behaviour,
    /// Whether people freeze, move and replay it.
    pub(super) is_open_to_people: bool,
}

/// The subscription whose URL is frozen at the end, so that something is parked when everything else is at rest.
pub(super) const KEPT_FROZEN: usize = 0;

pub(super) fn assemble() -> Vec<Role> {
    let mut roles = Vec::new();
    let mut add = |tenant, family, behaviour, is_open_to_people| {
        roles.push(Role { tenant, family, behaviour, is_open_to_people });
    };
    add(0, Family::Order, Behaviour::Succeed, false);
    for tenant in 0..TENANTS {
        for (family, behaviour) in [
            (Family::Order, Behaviour::Succeed),
            (Family::Order, Behaviour::Fail),
            (Family::Order, Behaviour::Flap),
            (Family::User, Behaviour::Succeed),
            (Family::User, Behaviour::Hang),
            (Family::User, Behaviour::RefuseShare),
            (Family::Invoice, Behaviour::Succeed),
            (Family::Invoice, Behaviour::Throttle),
            (Family::Invoice, Behaviour::CloseEarly),
        ] {
            add(tenant, family, behaviour, true);
        }
    }
    for number in 0..FAN_OUT {
        let behaviour = if number % 10 == 0 { Behaviour::Flap } else { Behaviour::Succeed };
        add(0, Family::Fan, behaviour, false);
    }
    roles
}

/// The subscriptions that get an event.
pub(super) fn subscribers(cast: &[Role], tenant: usize, family: Family) -> impl Iterator<Item = usize> {
    let wanted =
        cast.iter().enumerate().filter(move |(_, role)| role.tenant == tenant && role.family == family);
    wanted.map(|(number, _)| number)
}
