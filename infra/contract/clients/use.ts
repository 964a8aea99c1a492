// A use of the generated types, which the compiler checks. It is never run.

import type { components, operations, paths } from './types';

type Schemas = components['schemas'];
type Page<T extends keyof paths> = paths[T] extends {
  get: { responses: { 200: { content: { 'application/json': infer Answer } } } };
}
  ? Answer
  : never;

export const subscription: Schemas['NewSubscription'] = { url: 'https://example.com/hook', event_types: ['order.*'] };
export const event: Schemas['NewEvent'] = { type: 'order.created', data: { number: 1 } };
export const query: operations['listAudit']['parameters']['query'] = { order: 'asc', limit: 10 };

export function deadLetters(page: Page<'/v1/deliveries'>): string[] {
  return page.items.filter((delivery) => delivery.state === 'dead').map((delivery) => delivery.id);
}

export function whoFroze(page: Page<'/v1/audit'>): string[] {
  return page.items.filter((entry) => entry.action === 'url.frozen').map((entry) => `${entry.key_id} ${entry.reason ?? ''}`);
}

export function subjects(page: Page<'/v1/events'>): (string | null)[] {
  return page.items.map((listed) => listed.subject);
}

export function secretOf(created: Schemas['CreatedSubscription']): string {
  return created.secret + created.id;
}

// @ts-expect-error: a field that does not exist is an error, so the types are more than `any`.
export const wrong: Schemas['NewSubscription'] = { url: 'https://example.com/hook', event_types: [], colour: 'red' };
// @ts-expect-error: and so is a value that does not exist.
export const state: Schemas['Delivery']['state'] = 'lost';
