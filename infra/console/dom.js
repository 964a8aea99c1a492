// Every element of the console is made here. A string becomes a text node or the value of an attribute and is never parsed as HTML, so text
// that a customer or a receiver chose cannot become markup.

const SVG = 'http://www.w3.org/2000/svg';

/** Creates an HTML element: `h('p', { class: 'note' }, 'text', child)`. */
export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Creates an SVG element. */
export function s(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Replaces what is inside `parent`. */
export function put(parent, ...children) {
  parent.replaceChildren(...nodes(children));
  return parent;
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  element.append(...nodes(children));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith('on')) {
    // A string would be compiled as script.
    if (typeof value !== 'function') throw new TypeError(`${name} must be a function`);
    element.addEventListener(name.slice(2), value);
    return;
  }
  // Links lead to pages of the console or to paths of this server. The URLs of receivers are shown, never linked.
  if (name === 'href' && !/^(#|\/(?!\/))/.test(value)) throw new TypeError(`${value} is not a link within the console`);
  if (name === 'value') element.value = value;
  element.setAttribute(name, value === true ? '' : String(value));
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

let lastId = 0;

/** An id for `for`, `aria-labelledby` and the like. */
export function uniqueId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}
