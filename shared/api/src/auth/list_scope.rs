//! Lists that an operator may request over all tenants.

use std::sync::Arc;

use holdfast_core::engine::Page;
use holdfast_core::ids::Tenant;

use crate::params::Params;
use crate::{App, Problem};

/// What a viewer, an admin or an operator may list.
pub(crate) struct ListScope {
    pub(crate) app: Arc<App>,
    /// `None`: all tenants. The operator named none, and the key has none.
    pub(super) tenant: Option<Tenant>,
    /// A list of all tenants begins with what belongs to none.
    pub(super) starts_without_tenant: bool,
}

/// An item, with its tenant if the list is of all tenants.
pub(crate) struct ListItem<T> {
    pub(crate) tenant: Option<Tenant>,
    pub(crate) item: T,
}

/// A page as it is answered.
pub(crate) struct ListPage<T> {
    pub(crate) items: Vec<ListItem<T>>,
    /// The cursor of the next one.
    pub(crate) next: Option<String>,
    /// It is not full, although there may be more: it has read what one request may read.
    pub(crate) is_partial: bool,
}

/// Limits the reads of one request when many tenants have nothing to list.
const MAX_TENANTS_PER_REQUEST: usize = 100;

/// Stands for no tenant in cursors and lists. No tenant is called so.
pub(crate) fn no_tenant() -> Tenant {
    "*".into()
}

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

    fn encode(self) -> String {
        let Position { tenant, after } = self;
        after.map_or_else(|| tenant.0.clone(), |after| format!("{tenant} {after}"))
    }
}

impl ListScope {
    /// The tenant that cursors are bound to.
    pub(crate) fn cursor_tenant(&self) -> Tenant {
        self.tenant.clone().unwrap_or_else(no_tenant)
    }

    /// `None`: all tenants.
    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }

    /// Over all tenants.
    pub(crate) fn of_all(app: Arc<App>) -> ListScope {
        ListScope { app, tenant: None, starts_without_tenant: false }
    }

    /// With what belongs to no tenant before all tenants: `load` is called with [`no_tenant`] for it.
    pub(crate) fn starting_without_tenant(self) -> ListScope {
        ListScope { starts_without_tenant: true, ..self }
    }

    /// So many tenants after one, in the order of their names, and the last of them if there are more.
    pub(crate) async fn tenants_after(
        &self,
        after: Option<Tenant>,
        limit: usize,
    ) -> Result<(Vec<Tenant>, Option<Tenant>), Problem> {
        // One more than is shown, to know whether there is a next page.
        let stored = self.app.engine.list_tenants(after.as_ref(), limit + 1).await?.items;
        let homes = self.app.keys.homes().into_iter().cloned();
        let homes = homes.filter(|home| after.as_ref().is_none_or(|after| home > after));
        let mut tenants: Vec<Tenant> = stored.into_iter().chain(homes).collect();
        tenants.sort();
        tenants.dedup();
        let has_more = tenants.len() > limit;
        tenants.truncate(limit);
        let next = tenants.last().cloned().filter(|_| has_more);
        Ok((tenants, next))
    }

    /// Up to the maximum of one request, and whether there are more.
    pub(crate) async fn tenants(&self) -> Result<(Vec<Tenant>, bool), Problem> {
        if let Some(tenant) = &self.tenant {
            return Ok((vec![tenant.clone()], false));
        }
        let mut tenants: Vec<Tenant> = Vec::new();
        while let Some(tenant) = self.next_tenant(tenants.last()).await? {
            if tenants.len() == MAX_TENANTS_PER_REQUEST {
                return Ok((tenants, true));
            }
            tenants.push(tenant);
        }
        Ok((tenants, false))
    }

    /// One page, with the cursor of the next. `load` returns a page of one tenant, given the position to start after and the limit.
    pub(crate) async fn list<T, P: Future<Output = Result<Page<T>, Problem>>>(
        &self,
        list: &str,
        params: Params,
        load: impl Fn(Tenant, Option<String>, usize) -> P,
    ) -> Result<ListPage<T>, Problem> {
        let request = params.page("cursor", list, &self.cursor_tenant())?;
        let page = match &self.tenant {
            Some(tenant) => {
                let page = load(tenant.clone(), request.after, request.limit).await?;
                let items = page.items.into_iter().map(|item| ListItem { tenant: None, item }).collect();
                Page { items, next: page.next }
            }
            None => self.list_all(request.after, request.limit, load).await?,
        };
        let is_partial = page.next.is_some() && page.items.len() < request.limit;
        let next = page.next.map(|next| request.cursors.encode(&next));
        Ok(ListPage { items: page.items, next, is_partial })
    }

    /// Tenant by tenant, in the order of their names.
    async fn list_all<T, P: Future<Output = Result<Page<T>, Problem>>>(
        &self,
        after: Option<String>,
        limit: usize,
        load: impl Fn(Tenant, Option<String>, usize) -> P,
    ) -> Result<Page<ListItem<T>>, Problem> {
        let mut items = Vec::new();
        let mut position = after.as_deref().map(Position::decode);
        for _ in 0..MAX_TENANTS_PER_REQUEST {
            let (tenant, after) = match position {
                Some(Position { tenant, after: Some(after) }) => (tenant, Some(after)),
                None if self.starts_without_tenant => (no_tenant(), None),
                finished => match self.next_tenant(finished.map(|last| last.tenant).as_ref()).await? {
                    Some(tenant) => (tenant, None),
                    None => return Ok(Page { items, next: None }),
                },
            };
            let page = load(tenant.clone(), after, limit - items.len()).await?;
            let named = Some(&tenant).filter(|tenant| **tenant != no_tenant());
            items.extend(page.items.into_iter().map(|item| ListItem { tenant: named.cloned(), item }));
            // A page that is not full but has a next one has already read its maximum.
            let is_last = page.next.is_some() || items.len() >= limit;
            position = Some(Position { tenant, after: page.next });
            if is_last {
                break;
            }
        }
        Ok(Page { items, next: position.map(Position::encode) })
    }

    /// The first tenant after this one, stored or home of a built-in key.
    async fn next_tenant(&self, after: Option<&Tenant>) -> Result<Option<Tenant>, Problem> {
        let stored = self.app.engine.list_tenants(after, 1).await?.items.into_iter().next();
        let mut homes = self.app.keys.homes().into_iter();
        let home = homes.find(|home| after.is_none_or(|after| **home > *after)).cloned();
        Ok([stored, home].into_iter().flatten().min())
    }
}
