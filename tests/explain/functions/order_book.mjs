// Keeps what the planted leaks give it.
export const book = {};

export class Store {
  #data = new Map();

  put(key, value) {
    this.#data.set(key, value); // instance
  }
}

// Has a variable of a name that planted.mjs has as well.
export function busy() {
  let copied = [];
  for (let number = 0; number < 20; number++) copied = [...copied, number];
  return copied.length;
}

export function remember(key, value) {
  book[key] = value; // module
}
