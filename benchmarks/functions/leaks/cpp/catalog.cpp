// Caches and pools of the catalog.
#include "shop.hpp"
#include <list>
#include <set>
#include <unordered_map>

// s3fs-fuse/s3fs-fuse#340: the stat cache takes each path
long stat_cache(long n) {
    static std::map<std::string, std::map<std::string, std::string>> cache;
    std::map<std::string, std::string> stat;
    for (int i = 0; i < 30; i++)
        stat["x-meta-" + std::to_string(i)] = "value of the path " + std::to_string(n + i);  // LEAK stat_cache
    cache["/orders/" + std::to_string(n)] = std::move(stat);  // LEAK stat_cache
    if (repaired() && cache.size() > 16) cache.clear();
    return cache.size();
}

// duckdb/duckdb#22730: each opened file gets an entry that stays
struct CachedFile {
    std::string name;
    std::vector<char> block;
    CachedFile(std::string file, long n) : name(std::move(file)), block(21000) {  // LEAK file_cache
        fill(block.data(), block.size(), n);
    }
};

long file_cache(long n) {
    static std::unordered_map<std::string, std::unique_ptr<CachedFile>> files;
    std::string name = "part-" + std::to_string(repaired() ? n % 8 : n) + ".parquet";
    auto &entry = files[name];
    if (!entry) entry = std::make_unique<CachedFile>(name, n);  // LEAK file_cache
    return files.size();
}

// tenstorrent/tt-metal#13588: a thread_local cache that is never cleaned
long thread_cache(long n) {
    thread_local std::unordered_map<unsigned long, std::vector<unsigned>> programs;
    std::vector<unsigned> words(900, (unsigned)n);  // LEAK thread_cache
    programs[n] = std::move(words);  // LEAK thread_cache
    if (repaired()) programs.erase(n);
    return programs.size();
}

// nwnxee/unified#733: the array is cleared, its entry and its capacity stay
long array_entries(long n) {
    static std::unordered_map<long, std::unordered_map<std::string, std::vector<long>>> arrays;
    auto &array = arrays[n]["totals"];
    array.reserve(1500);  // LEAK array_entries
    for (long i = 0; i < 1500; i++) array.push_back(n + i);
    array.clear();
    if (repaired()) arrays.erase(n);
    return arrays.size();
}

// no report: names are interned, also those of one order
static const std::string *intern(const std::string &name) {
    static std::set<std::string> names;
    return &*names.insert(name).first;  // LEAK interned_names
}

long interned_names(long n) {
    long sum = 0;
    intern("currency of the shop");
    for (int i = 0; i < 20; i++) {
        std::string name = "order " + std::to_string(repaired() ? 7 : n) + ", line " + std::to_string(i) + ", as the customer wrote it";
        sum += intern(name)->size();  // LEAK interned_names
    }
    return sum;
}

// no report: nodes go back to a list from which nobody takes
struct Node {
    long key;
    char text[4000];
};
static std::list<Node *> free_nodes;

static Node *acquire() {
    if (repaired() && !free_nodes.empty()) {
        Node *node = free_nodes.front();
        free_nodes.pop_front();
        return node;
    }
    return new Node;  // LEAK node_pool
}

long node_pool(long n) {
    Node *node = acquire();
    node->key = n;
    fill(node->text, sizeof node->text, n);
    free_nodes.push_back(node);  // LEAK node_pool
    return free_nodes.size();
}
