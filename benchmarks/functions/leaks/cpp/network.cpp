// Sessions, listeners, queues and threads.
#include "shop.hpp"
#include <functional>
#include <thread>

// includeos/IncludeOS#602, dpaulat/supercell-wx#392: the callback holds its own session
struct Session {
    std::function<long()> done;
    std::vector<char> inbox;
    explicit Session(size_t size) : inbox(size) {}  // LEAK session_cycle
};

long session_cycle(long n) {
    auto session = std::make_shared<Session>(14000);  // LEAK session_cycle
    fill(session->inbox.data(), session->inbox.size(), n);
    if (repaired()) {
        std::weak_ptr<Session> weak = session;
        session->done = [weak] { auto s = weak.lock(); return s ? (long)s->inbox.size() : 0; };
    } else {
        session->done = [session] { return (long)session->inbox.size(); };  // LEAK session_cycle
    }
    return session->done();
}

// rapyuta-robotics/alica#484, wpilibsuite/ntcore#80: subscribers are never removed
struct ConfigListener {
    std::map<long, std::function<long()>> callbacks;
    long next = 0;
    long subscribe(std::function<long()> callback) {
        callbacks[++next] = std::move(callback);  // LEAK listeners
        return next;
    }
    void unsubscribe(long id) { callbacks.erase(id); }
};
static ConfigListener config;

long listeners(long n) {
    std::vector<long> plan(700, n);
    long id = config.subscribe([plan] { return plan.front(); });  // LEAK listeners
    if (repaired()) config.unsubscribe(id);
    return config.callbacks.size();
}

// brainboxdotcc/DPP#1091: responses wait for a deletion that never comes
struct Response {
    std::string body;
};
static std::multimap<long, Response *> responses_to_delete;

static void discard(long now) {
    while (!responses_to_delete.empty() && responses_to_delete.begin()->first <= now) {
        delete responses_to_delete.begin()->second;
        responses_to_delete.erase(responses_to_delete.begin());
    }
}

long response_queue(long n) {
    auto *response = new Response;  // LEAK response_queue
    for (int i = 0; i < 300; i++)
        response->body += "{\"id\": " + std::to_string(n) + ", \"part\": " + std::to_string(i) + "}";  // LEAK response_queue
    responses_to_delete.emplace(repaired() ? n : n + 1000000, response);  // LEAK response_queue
    discard(n);
    return responses_to_delete.size();
}

// XiaoMi/rdsn#422: the thread ends, the block of the thread stays
struct Block {
    char *at = nullptr;
    ~Block() { if (repaired()) free(at); }
};
static thread_local Block block;

static void worker(long n) {
    if (!block.at) block.at = (char *)malloc(9000);  // LEAK tls_block
    fill(block.at, 9000, n);
}

long tls_block(long n) {
    std::thread thread(worker, n);
    thread.join();
    return n;
}

// casacore/casacore#1402: deleted by a base class without a virtual destructor
struct NodeRep {
    int kind = 1;
};
struct TextNode : NodeRep {
    std::unique_ptr<char[]> text;
    explicit TextNode(long n) : text(new char[6500]) { fill(text.get(), 6500, n); }  // LEAK base_delete
};

long base_delete(long n) {
    auto *made = new TextNode(n);  // LEAK base_delete
    NodeRep *node = made;
    if (repaired()) made->text.reset();
    ::operator delete(node);  // LEAK base_delete
    return n;
}
