// The theme follows the system unless the operator chose one. Only this choice is kept in localStorage; it is no secret.
try {
  const chosen = localStorage.getItem('holdfast.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
  // Storage can be switched off; the system's theme is fine then.
}
