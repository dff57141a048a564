export class Scope {
  constructor() { this.breadcrumbs = []; }

  // getsentry/sentry-javascript#2963: without max nothing is trimmed
  addBreadcrumb(crumb, max) {
    this.breadcrumbs.push({ at: Date.now(), ...crumb }); // LEAK breadcrumb_trail
    if (max !== undefined) this.breadcrumbs.splice(0, this.breadcrumbs.length - max);
    return this;
  }
}
export const scope = new Scope();
