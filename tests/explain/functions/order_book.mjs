// Keeps what the planted leaks give it.
export const book = {};

export class Store {
  #data = new Map();

  put(key, value) {
    this.#data.set(key, value); // instance
  }
}

export function remember(key, value) {
  book[key] = value; // module
}
