/* A native module of Node.js, which needs no headers of it: what keep() asks for stays. */
#include <stdlib.h>
#include <string.h>

typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
extern int napi_create_function(napi_env, const char *, size_t, napi_callback, void *, napi_value *);
extern int napi_set_named_property(napi_env, napi_value, const char *, napi_value);

static void *volatile last;

static napi_value keep(napi_env env, napi_callback_info info) {
    (void)env, (void)info;
    void *new = malloc(8000); /* keep */
    last = memset(new, 1, 8000);
    return NULL;
}

static napi_value drop(napi_env env, napi_callback_info info) {
    keep(env, info);
    free(last);
    return NULL;
}

__attribute__((visibility("default"))) napi_value napi_register_module_v1(napi_env env, napi_value exports) {
    napi_value function;
    napi_create_function(env, "keep", (size_t)-1, keep, NULL, &function);
    napi_set_named_property(env, exports, "keep", function);
    napi_create_function(env, "drop", (size_t)-1, drop, NULL, &function);
    napi_set_named_property(env, exports, "drop", function);
    return exports;
}
