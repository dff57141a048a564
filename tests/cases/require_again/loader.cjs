exports.settings = () => {
  delete require.cache[require.resolve("./settings.cjs")];
  return require("./settings.cjs").rows;
};
