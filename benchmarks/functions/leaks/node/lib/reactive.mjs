// Views of objects that note which fields are read.
export function tracker(proxies) {
  return function view(target) {
    let proxy = proxies.get(target);
    if (proxy) return proxy;
    const read = new Set();
    proxy = new Proxy(target, {
      get(object, key) {
        if (typeof key === 'string') read.add(key);
        return Reflect.get(object, key);
      },
    });
    proxies.set(target, proxy); // LEAK proxy_view
    return proxy;
  };
}
