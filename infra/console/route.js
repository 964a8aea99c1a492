// Addresses of pages: `#/urls/url_123?tenant=acme`. After the hash, so that the server needs one page only and no id reaches its access log.

export function href(segments, query = {}) {
  const path = [segments].flat().map(encodeURIComponent).join('/');
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const search = new URLSearchParams(kept).toString();
  return `#/${path}${search ? `?${search}` : ''}`;
}

export function parseHash(hash) {
  const [path, search = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  return { segments: path.split('/').filter(Boolean).map(decode), query: new URLSearchParams(search) };
}

function decode(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
