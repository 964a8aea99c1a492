//! Lists that an operator may request over all tenants.

use holdfast_core::engine::ListPage;
use holdfast_core::ids::Tenant;

use crate::params::PageRequest;
use crate::{App, Problem};

/// What an admin or operator may list. An operator who names no tenant, and whose key has none, lists all.
pub(crate) enum ListScope {
    One(Tenant),
    All,
}

/// An item, with its tenant if the list is of all tenants.
pub(crate) struct ListItem<T> {
    pub(crate) tenant: Option<Tenant>,
    pub(crate) item: T,
}

/// Limits the reads of one request when many tenants have nothing to list.
const MAX_TENANTS_PER_REQUEST: usize = 100;

/// Where a list over all tenants continues. A tenant's name has no space, which therefore separates the two.
struct Position {
    tenant: Tenant,
    /// `None`: the tenant is finished.
    after: Option<String>,
}

impl Position {
    fn decode(text: &str) -> Position {
        let (tenant, after) = text.split_once(' ').map_or((text, None), |(t, after)| (t, Some(after)));
        Position { tenant: tenant.into(), after: after.map(ToOwned::to_owned) }
    }

    fn encode(tenant: &Tenant, after: Option<String>) -> String {
        after.map_or_else(|| tenant.0.clone(), |after| format!("{tenant} {after}"))
    }
}

impl ListScope {
    /// The tenant that cursors are bound to. No tenant is called `*`.
    pub(crate) fn cursor_tenant(&self) -> Tenant {
        match self {
            ListScope::One(tenant) => tenant.clone(),
            ListScope::All => "*".into(),
        }
    }

    /// Up to the maximum of one request, and whether there are more.
    pub(crate) async fn tenants(&self, app: &App) -> Result<(Vec<Tenant>, bool), Problem> {
        let mut tenants: Vec<Tenant> = match self {
            ListScope::One(tenant) => return Ok((vec![tenant.clone()], false)),
            ListScope::All => Vec::new(),
        };
        while let Some(tenant) = next_tenant(app, tenants.last()).await? {
            if tenants.len() == MAX_TENANTS_PER_REQUEST {
                return Ok((tenants, true));
            }
            tenants.push(tenant);
        }
        Ok((tenants, false))
    }

    /// One page. `load` returns a page of one tenant, given the position to start after and the limit.
    pub(crate) async fn list<T, L, P>(
        &self,
        app: &App,
        request: &PageRequest,
        load: L,
    ) -> Result<ListPage<ListItem<T>>, Problem>
    where
        L: Fn(Tenant, Option<String>, usize) -> P,
        P: Future<Output = Result<ListPage<T>, Problem>>,
    {
        match self {
            ListScope::One(tenant) => {
                let page = load(tenant.clone(), request.after.clone(), request.limit).await?;
                let item = |item| ListItem { tenant: None, item };
                Ok(ListPage { items: page.items.into_iter().map(item).collect(), next: page.next })
            }
            ListScope::All => list_all(app, request, load).await,
        }
    }
}

/// Tenant by tenant, in the order of their names.
async fn list_all<T, L, P>(
    app: &App,
    request: &PageRequest,
    load: L,
) -> Result<ListPage<ListItem<T>>, Problem>
where
    L: Fn(Tenant, Option<String>, usize) -> P,
    P: Future<Output = Result<ListPage<T>, Problem>>,
{
    let mut items = Vec::new();
    let (mut finished, mut started) = match request.after.as_deref().map(Position::decode) {
        Some(Position { tenant, after: None }) => (Some(tenant), None),
        Some(Position { tenant, after }) => (None, Some((tenant, after))),
        None => (None, None),
    };
    for _ in 0..MAX_TENANTS_PER_REQUEST {
        let (tenant, after) = match started.take() {
            Some(started) => started,
            None => match next_tenant(app, finished.as_ref()).await? {
                Some(tenant) => (tenant, None),
                None => return Ok(ListPage { items, next: None }),
            },
        };
        let page = load(tenant.clone(), after, request.limit - items.len()).await?;
        items.extend(page.items.into_iter().map(|item| ListItem { tenant: Some(tenant.clone()), item }));
        // A page that is not full but has a next one has already read its maximum.
        if page.next.is_some() || items.len() >= request.limit {
            return Ok(ListPage { items, next: Some(Position::encode(&tenant, page.next)) });
        }
        finished = Some(tenant);
    }
    Ok(ListPage { items, next: finished.map(|tenant| Position::encode(&tenant, None)) })
}

/// The first tenant after this one, stored or home of a built-in key.
async fn next_tenant(app: &App, after: Option<&Tenant>) -> Result<Option<Tenant>, Problem> {
    let stored = app.engine.list_tenants(after, 1).await?.items.into_iter().next();
    let home = app.keys.homes().into_iter().find(|home| after.is_none_or(|after| **home > *after)).cloned();
    Ok([stored, home].into_iter().flatten().min())
}
