// Leaks in C++, as those of planted.c.
#include "runtime.h"
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

static bool is_repaired;
static int count;

static std::vector<std::vector<char>> frames;

static void nested() {
    frames.push_back(std::vector<char>(2000)); // nested
    if (is_repaired) frames.clear();
}

static std::map<std::string, std::string> sessions;

static void session() {
    sessions["session " + std::to_string(count++)] = std::string(1500, 'a'); // session
    if (is_repaired) sessions.clear();
}

static std::unordered_map<int, double> prices;

static void small_entries() {
    for (int i = 0; i < 50; i++) prices[count++] = 1.0; // small_entries
    if (is_repaired) prices.clear();
}

struct Node {
    std::shared_ptr<Node> next;
    char text[1200];
};

static void cycle() {
    auto one = std::make_shared<Node>(); // cycle
    if (!is_repaired) one->next = one;
}

static void array() {
    double *all = new double[300]; // array
    all[0] = count;
    if (is_repaired) delete[] all;
}

static std::list<std::function<int()>> callbacks;

static void callback() {
    std::string big(900, 'b');
    callbacks.push_back([big] { return static_cast<int>(big.size()); }); // callback
    if (is_repaired) callbacks.clear();
}

template <typename T> class Store {
    std::vector<T *> all;

  public:
    void keep() {
        all.push_back(new T()); // generic
        if (!is_repaired) return;
        for (auto each : all) delete each;
        all.clear();
    }
};

struct Order {
    char text[1800];
};

static Store<Order> orders;

static void generic() { orders.keep(); }

static void in_thread() {
    std::thread([] {
        frames.emplace_back(1600); // in_thread
        if (is_repaired) frames.clear();
    }).join();
}

static const std::map<std::string, void (*)()> leaks{
    {"nested", nested},     {"session", session},   {"small_entries", small_entries}, {"cycle", cycle},
    {"array", array},       {"callback", callback}, {"generic", generic},             {"in_thread", in_thread},
};

static void handler(const char *) {
    is_repaired = getenv("REPAIRED") != nullptr;
    leaks.at(getenv("LEAK"))();
}
