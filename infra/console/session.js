// What the console remembers. The key and the tenant live as long as the tab: sessionStorage is neither shared with other tabs nor kept.

const KEY = 'holdfast.key';
const TENANT = 'holdfast.tenant';
const THEME = 'holdfast.theme';

export const session = {
  /** Whether the key belongs to no tenant: an operator's view of all of them. Known after signing in. */
  isForAll: false,

  get key() {
    return sessionStorage.getItem(KEY);
  },
  set key(key) {
    sessionStorage.setItem(KEY, key);
  },

  /** The tenant that an operator works on; null for that of the key, or for all. */
  get tenant() {
    return sessionStorage.getItem(TENANT);
  },
  set tenant(tenant) {
    if (tenant) sessionStorage.setItem(TENANT, tenant);
    else sessionStorage.removeItem(TENANT);
  },

  end() {
    sessionStorage.clear();
  },
};

/** 'light', 'dark', or null for the theme of the system. */
export function chooseTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try {
    if (theme) localStorage.setItem(THEME, theme);
    else localStorage.removeItem(THEME);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
}

export function chosenTheme() {
  return document.documentElement.dataset.theme ?? null;
}
