class Prices {
  #rules = [(price) => price * 0.9, (price) => Math.round(price)];

  async of(price) {
    // slot
    return this.#rules.reduce((sum, rule) => rule(sum), price);
  }
}

const prices = new Prices();

export const handler = async (event) => {
  const found = await prices.of(3);
  // slot
  return { found };
};
