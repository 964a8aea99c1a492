//! Lists that an operator may ask for over all tenants.

use holdfast_core::engine::ListPage;
use holdfast_core::ids::Tenant;

use crate::params::Part;
use crate::{App, Problem};

/// Whoever may list the things of one tenant, or of all. An operator who names no tenant, and whose key has none, means all.
pub(crate) struct Across {
    pub(crate) tenants: Tenants,
}

pub(crate) enum Tenants {
    One(Tenant),
    All,
}

/// An item, and whose it is where that is not clear from the call.
pub(crate) struct Owned<T> {
    pub(crate) tenant: Option<Tenant>,
    pub(crate) item: T,
}

/// So many tenants are looked through for one page, so that many of them who have nothing do not make one request read for ever.
const MAX_LOOKED_THROUGH: usize = 100;

/// Where a list over all tenants goes on: a tenant's name holds no space, so that it can be told from that tenant's own place.
struct Place {
    tenant: Tenant,
    /// `None`: the tenant is done.
    after: Option<String>,
}

impl Place {
    fn read(text: &str) -> Place {
        let (tenant, after) = text.split_once(' ').map_or((text, None), |(t, after)| (t, Some(after)));
        Place { tenant: tenant.into(), after: after.map(ToOwned::to_owned) }
    }

    fn write(tenant: &Tenant, after: Option<String>) -> String {
        after.map_or_else(|| tenant.0.clone(), |after| format!("{tenant} {after}"))
    }
}

impl Across {
    /// For cursors. No tenant is called `*`.
    pub(crate) fn tag(&self) -> Tenant {
        match &self.tenants {
            Tenants::One(tenant) => tenant.clone(),
            Tenants::All => "*".into(),
        }
    }

    /// All of them, or as many as are looked through for one answer, and whether there are more.
    pub(crate) async fn tenants(&self, app: &App) -> Result<(Vec<Tenant>, bool), Problem> {
        let mut tenants: Vec<Tenant> = match &self.tenants {
            Tenants::One(tenant) => return Ok((vec![tenant.clone()], false)),
            Tenants::All => Vec::new(),
        };
        while let Some(tenant) = next_tenant(app, tenants.last()).await? {
            if tenants.len() == MAX_LOOKED_THROUGH {
                return Ok((tenants, true));
            }
            tenants.push(tenant);
        }
        Ok((tenants, false))
    }

    /// One page. `load` answers a page of one tenant: beyond a place of its own, and at most so many.
    pub(crate) async fn list<T, L, P>(
        &self,
        app: &App,
        part: &Part,
        load: L,
    ) -> Result<ListPage<Owned<T>>, Problem>
    where
        L: Fn(Tenant, Option<String>, usize) -> P,
        P: Future<Output = Result<ListPage<T>, Problem>>,
    {
        match &self.tenants {
            Tenants::One(tenant) => {
                let page = load(tenant.clone(), part.after.clone(), part.limit).await?;
                let owned = |item| Owned { tenant: None, item };
                Ok(ListPage { items: page.items.into_iter().map(owned).collect(), next: page.next })
            }
            Tenants::All => all(app, part, load).await,
        }
    }
}

/// Tenant by tenant, in the order of their names.
async fn all<T, L, P>(app: &App, part: &Part, load: L) -> Result<ListPage<Owned<T>>, Problem>
where
    L: Fn(Tenant, Option<String>, usize) -> P,
    P: Future<Output = Result<ListPage<T>, Problem>>,
{
    let mut items = Vec::new();
    let (mut done, mut begun) = match part.after.as_deref().map(Place::read) {
        Some(Place { tenant, after: None }) => (Some(tenant), None),
        Some(Place { tenant, after }) => (None, Some((tenant, after))),
        None => (None, None),
    };
    for _ in 0..MAX_LOOKED_THROUGH {
        let (tenant, after) = match begun.take() {
            Some(begun) => begun,
            None => match next_tenant(app, done.as_ref()).await? {
                Some(tenant) => (tenant, None),
                None => return Ok(ListPage { items, next: None }),
            },
        };
        let page = load(tenant.clone(), after, part.limit - items.len()).await?;
        items.extend(page.items.into_iter().map(|item| Owned { tenant: Some(tenant.clone()), item }));
        // A page that is not full but goes on has looked through enough.
        if page.next.is_some() || items.len() >= part.limit {
            return Ok(ListPage { items, next: Some(Place::write(&tenant, page.next)) });
        }
        done = Some(tenant);
    }
    Ok(ListPage { items, next: done.map(|tenant| Place::write(&tenant, None)) })
}

/// The first tenant after this one, stored or at home in a built-in key.
async fn next_tenant(app: &App, after: Option<&Tenant>) -> Result<Option<Tenant>, Problem> {
    let stored = app.engine.list_tenants(after, 1).await?.items.into_iter().next();
    let home = app.keys.homes().into_iter().find(|home| after.is_none_or(|after| **home > *after)).cloned();
    Ok([stored, home].into_iter().flatten().min())
}
