/* What AWS's client takes of libc++, from the compiler's copy of its source. The whole of it would take 40 s of CPU time
 * for each architecture, and the machine's libstdc++ would need that of the users to be as new.
 */
#include <cstdlib>
#include <new>

#include "abort_message.cpp"
#include "chrono.cpp"
#include "cxa_guard.cpp"
#include "cxa_virtual.cpp"
#include "string.cpp"
#include "verbose_abort.cpp"

namespace std {
inline namespace __1 {
void __throw_system_error(int, const char *) { abort(); } /* clock_gettime has failed */
} // namespace __1
} // namespace std

void *operator new(size_t size) {
    void *memory = malloc(size ? size : 1);
    if (memory == nullptr)
        abort();
    return memory;
}
void *operator new[](size_t size) { return operator new(size); }
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }
void operator delete[](void *memory) noexcept { free(memory); }
void operator delete[](void *memory, size_t) noexcept { free(memory); }
