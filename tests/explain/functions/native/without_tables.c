/* Calls what it is given. It is compiled as Go compiles: no tables for the unwinder, but frame pointers. */
static int depth;

__attribute__((noinline)) void call_without_tables(void (*called)(void)) {
    depth++;
    called(); /* without_tables */
    depth--;
}
