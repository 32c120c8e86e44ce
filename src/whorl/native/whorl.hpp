// Whorl's wire protocol, version 1, in one C++17 header: a server for simulators, and a client for served environments.
//
//     g++ -std=c++17 my_simulator.cpp -lzmq -pthread
//
// Copy this file; it needs libzmq (4.2 or newer) and a little-endian POSIX system, and nothing else. Both sides are in
// one file because they share most of it: spaces, msgpack, messages, frames, keys and sockets.
//
//     1  errors and limits      4  messages and frames
//     2  spaces                 5  addresses, keys, sockets
//     3  msgpack                6  the client    7  the server
//
// A simulator:                                          A client:
//
//     struct Mine : whorl::Simulator {                      whorl::Client env("ipc:///home/me/s/env.sock", 2);
//       void reset(std::uint64_t seed, whorl::Outcome &);   env.reset(0, 17);
//       void step(const whorl::Action &, whorl::Outcome &); env.reset(1, 18);
//     };                                                    env.advance();
//     int main() {                                          env.step(0, 1);
//       whorl::Spec spec;                                   env.advance();
//       spec.name = "Mine";                                 env.reward(0), env.vector(0)[3] ...
//       spec.observation = {whorl::vector_leaf({4})};
//       spec.action = whorl::discrete(2);
//       whorl::serve("ipc:///home/me/s/env.sock", 8, spec, [] { return std::make_unique<Mine>(); });
//     }
//
// docs/reference/wire-protocol.md tells what goes over the wire; the examples beside this file are complete.
#ifndef WHORL_HPP
#define WHORL_HPP

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "frames are little-endian: whorl.hpp needs a little-endian machine"
#endif

namespace whorl {

// --------------------------------------------------------------------------- 1  errors and limits

// One line for people: what, where, what to do.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The server was restarted, and the episodes could not be brought back: reset every lane, and go on.
struct EpisodesLost : Error {
    using Error::Error;
};

namespace detail {

constexpr std::size_t REQUEST_HEADER_BYTES = 64 * 1024, ANSWER_HEADER_BYTES = 1024 * 1024;
constexpr std::size_t MOST_LANES = 4096, MOST_LEAVES = 256, MOST_AXES = 8, MOST_METRICS = 16, LONGEST_TEXT = 1000;
constexpr std::size_t MOST_FRAME_BYTES = std::size_t(1) << 30;
constexpr std::size_t MOST_REQUEST_PARTS = 8; // a request has five with its route; a message of more is not read on
constexpr int QUEUED_MESSAGES = 64, HANDSHAKE_MS = 10000, LINGER_MS = 200;
constexpr double GONE_S = 5.0;
constexpr std::int64_t LARGEST = std::numeric_limits<std::int64_t>::max();
enum Op : unsigned char { LEAVE, STEP, RESET };
enum Status : unsigned char { UNTOUCHED, DONE, RAISED, FORBIDDEN };

// Not a message of this protocol.
struct Malformed : Error {
    using Error::Error;
};

// The server does not know the session.
struct SessionLost : Error {
    using Error::Error;
};

// A message of another version of it.
struct OtherVersion : Malformed {
    std::int64_t version;
    explicit OtherVersion(std::int64_t claimed) : Malformed("protocol " + std::to_string(claimed)), version(claimed) {}
};

using Bytes = std::vector<unsigned char>;
using Parts = std::vector<Bytes>;

inline double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline std::string random_bytes(std::size_t count) {
    std::string drawn(count, '\0');
    if (getentropy(&drawn[0], count) != 0) throw Error("the system has no random numbers");
    return drawn;
}

inline std::int64_t random_number() {
    std::uint64_t drawn = 0;
    std::memcpy(&drawn, random_bytes(8).data(), 8);
    return std::int64_t(drawn >> 1);
}

// How many bytes the UTF-8 character at `at` has; 0 where there is none.
inline std::size_t character_bytes(const unsigned char *at, std::size_t left) {
    if (left == 0) return 0;
    const unsigned first = at[0];
    const std::size_t size = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
    if (size == 0 || size > left) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if ((at[i] & 0xc0) != 0x80) return 0;
    const unsigned second = size > 1 ? at[1] : 0;
    const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    const bool beyond = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
    return overlong || beyond ? 0 : size;
}

// Characters of a text, and `valid` whether it is one.
inline std::size_t count_characters(const std::string &text, bool &valid) {
    const auto *at = reinterpret_cast<const unsigned char *>(text.data());
    std::size_t count = 0, place = 0;
    valid = true;
    for (; place < text.size(); ++count) {
        const std::size_t size = character_bytes(at + place, text.size() - place);
        if (size == 0) {
            valid = false;
            return count;
        }
        place += size;
    }
    return count;
}

// Any text as one line that may travel: valid UTF-8, no control characters, cut to what a header takes.
inline std::string brief(const std::string &text) {
    const auto *at = reinterpret_cast<const unsigned char *>(text.data());
    std::string kept;
    for (std::size_t place = 0, count = 0; place < text.size() && count < LONGEST_TEXT; ++count) {
        const std::size_t size = character_bytes(at + place, text.size() - place);
        if (size == 0 || at[place] == 0x7f) kept += '?';
        else if (at[place] < 0x20) kept += ' ';
        else kept.append(text, place, size);
        place += size == 0 ? 1 : size;
    }
    return kept;
}

} // namespace detail

// --------------------------------------------------------------------------- 2  spaces

using Shape = std::vector<std::int64_t>;
constexpr double INFINITE = std::numeric_limits<double>::infinity();

// One array of an observation. A vector has any shape; an image is [channels, height, width].
struct Leaf {
    std::string name = "obs", kind = "vector", dtype = "float32";
    Shape shape;
    double low = -INFINITE, high = INFINITE;
    std::int64_t n = 0, frames = 1;
    std::string padding = "reset";

    bool operator==(const Leaf &other) const {
        return name == other.name && kind == other.kind && dtype == other.dtype && shape == other.shape &&
               low == other.low && high == other.high && n == other.n && frames == other.frames &&
               padding == other.padding;
    }
};

inline Leaf vector_leaf(Shape shape, double low = -INFINITE, double high = INFINITE, std::string name = "obs") {
    Leaf leaf;
    leaf.name = std::move(name), leaf.shape = std::move(shape), leaf.low = low, leaf.high = high;
    return leaf;
}

inline Leaf image_leaf(std::int64_t channels, std::int64_t height, std::int64_t width, std::string name = "obs") {
    Leaf leaf;
    leaf.name = std::move(name), leaf.kind = "image", leaf.dtype = "uint8", leaf.shape = {channels, height, width};
    leaf.low = 0, leaf.high = 255;
    return leaf;
}

inline Leaf discrete_leaf(std::int64_t n, std::string name = "obs") {
    Leaf leaf;
    leaf.name = std::move(name), leaf.kind = "discrete", leaf.dtype = "int64", leaf.n = n;
    leaf.low = 0, leaf.high = double(n - 1);
    return leaf;
}

// What a step takes.
struct ActionSpec {
    std::string kind = "discrete", dtype = "int64";
    Shape shape;
    std::vector<std::int64_t> nvec;
    std::vector<double> low, high;

    bool operator==(const ActionSpec &other) const {
        return kind == other.kind && dtype == other.dtype && shape == other.shape && nvec == other.nvec &&
               low == other.low && high == other.high;
    }
};

inline ActionSpec discrete(std::int64_t n) {
    ActionSpec action;
    action.nvec = {n};
    return action;
}

inline ActionSpec multi_discrete(std::vector<std::int64_t> nvec) {
    ActionSpec action;
    action.kind = "multi_discrete", action.shape = {std::int64_t(nvec.size())}, action.nvec = std::move(nvec);
    return action;
}

inline ActionSpec box(std::vector<double> low, std::vector<double> high) {
    ActionSpec action;
    action.kind = "box", action.dtype = "float32", action.shape = {std::int64_t(low.size())};
    action.low = std::move(low), action.high = std::move(high);
    return action;
}

// A served environment.
struct Spec {
    std::string name = "Simulator";
    std::vector<Leaf> observation;
    ActionSpec action;
    std::int64_t max_episode_steps = 1000; // the client truncates longer episodes
    bool replay = true;                    // the same seed and actions lead to the same observations, bit for bit
    std::vector<std::string> episode_metrics;

    bool same_spaces(const Spec &other) const {
        return observation == other.observation && action == other.action && episode_metrics == other.episode_metrics;
    }
};

namespace detail {

// The product of a shape; refuses what nobody should allocate before it can overflow.
inline std::size_t elements(const Shape &shape) {
    std::size_t product = 1;
    for (const std::int64_t length : shape) {
        if (length < 1 || std::uint64_t(length) > MOST_FRAME_BYTES / product)
            throw Malformed("an array with an axis of length " + std::to_string(length));
        product *= std::size_t(length);
    }
    return product;
}

inline std::size_t item_bytes(const std::string &dtype) {
    return dtype == "uint8" ? 1 : dtype == "float32" ? 4 : 8;
}

inline bool is_identifier(const std::string &name) {
    const auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
           std::all_of(name.begin(), name.end(), fits);
}

// That the numbers of a spec go together, whether a user or a server has made it.
inline void check_spec(const Spec &spec) {
    if (spec.observation.empty() || spec.observation.size() > MOST_LEAVES)
        throw Malformed("an observation has 1 to 256 leaves, and here are " + std::to_string(spec.observation.size()));
    std::set<std::string> names;
    for (const Leaf &leaf : spec.observation) {
        const std::string who = "leaf '" + brief(leaf.name) + "': ";
        if (!names.insert(leaf.name).second) throw Malformed(who + "the name is there twice");
        if (leaf.name.empty() || brief(leaf.name) != leaf.name) throw Malformed(who + "not a name");
        const bool is_image = leaf.kind == "image", is_discrete = leaf.kind == "discrete";
        if (!is_image && !is_discrete && leaf.kind != "vector") throw Malformed(who + "no such kind: " + leaf.kind);
        const char *dtype = is_image ? "uint8" : is_discrete ? "int64" : "float32";
        if (leaf.dtype != dtype) throw Malformed(who + leaf.kind + " is " + dtype + ", not " + leaf.dtype);
        const std::size_t axes = leaf.shape.size();
        if (axes > MOST_AXES || (is_image && axes != 3) || (is_discrete && axes != 0))
            throw Malformed(who + leaf.kind + " with " + std::to_string(axes) + " axes");
        elements(leaf.shape);
        if (is_discrete ? leaf.n < 1 : leaf.n != 0) throw Malformed(who + "n = " + std::to_string(leaf.n));
        const bool divides = is_image && leaf.frames >= 1 && leaf.shape[0] % leaf.frames == 0;
        if (leaf.frames < 1 || leaf.frames > 255 || (leaf.frames > 1 && !divides))
            throw Malformed(who + std::to_string(leaf.frames) + " frames");
        if (leaf.padding != "reset" && leaf.padding != "zero") throw Malformed(who + "padding " + leaf.padding);
        if (!(leaf.low <= leaf.high)) throw Malformed(who + "its lower bound is above its upper one");
    }
    const ActionSpec &action = spec.action;
    const bool is_box = action.kind == "box";
    if (!is_box && action.kind != "discrete" && action.kind != "multi_discrete")
        throw Malformed("action: no such kind: " + action.kind);
    if (action.shape.size() > MOST_AXES || (action.kind == "discrete" && !action.shape.empty()))
        throw Malformed("action: " + action.kind + " with " + std::to_string(action.shape.size()) + " axes");
    const std::size_t size = elements(action.shape);
    if (action.dtype != (is_box ? "float32" : "int64"))
        throw Malformed("action: " + action.kind + " of " + action.dtype);
    if (action.nvec.size() != (is_box ? 0 : size) || action.low.size() != (is_box ? size : 0) ||
        action.high.size() != (is_box ? size : 0))
        throw Malformed("action: not as many choices or bounds as elements");
    for (const std::int64_t choices : action.nvec)
        if (choices < 1) throw Malformed("action: " + std::to_string(choices) + " choices");
    for (std::size_t i = 0; i < action.low.size(); ++i)
        if (!(action.low[i] <= action.high[i])) throw Malformed("action: a lower bound is above its upper one");
    if (spec.max_episode_steps < 1) throw Malformed("max_episode_steps is below 1");
    names.clear();
    if (spec.episode_metrics.size() > MOST_METRICS) throw Malformed("more than 16 episode metrics");
    for (const std::string &name : spec.episode_metrics)
        if (!is_identifier(name) || name.size() > LONGEST_TEXT || !names.insert(name).second)
            throw Malformed("episode metric '" + brief(name) + "': use different names of letters, digits and _");
}

// --------------------------------------------------------------------------- 3  msgpack

// Writes what the headers need.
class Writer {
  public:
    Bytes bytes;

    void map(std::size_t entries) { sized(entries, 15, 0x80, 0xde); }
    void array(std::size_t items) { sized(items, 15, 0x90, 0xdc); }
    void text(const std::string &text) {
        if (text.size() < 32) put(0xa0 | text.size(), 1);
        else put(0xda, 1), put(text.size(), 2);
        bytes.insert(bytes.end(), text.begin(), text.end());
    }
    void binary(const std::string &data) {
        put(0xc4, 1), put(data.size(), 1);
        bytes.insert(bytes.end(), data.begin(), data.end());
    }
    void integer(std::int64_t number) { // never negative in this protocol
        if (number < 128) put(std::uint64_t(number), 1);
        else put(0xcf, 1), put(std::uint64_t(number), 8);
    }
    void number(double value) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &value, 8);
        put(0xcb, 1), put(bits, 8);
    }
    void boolean(bool value) { put(value ? 0xc3 : 0xc2, 1); }

  private:
    void put(std::uint64_t value, unsigned size) {
        while (size-- > 0) bytes.push_back(static_cast<unsigned char>(value >> (8 * size)));
    }
    void sized(std::size_t count, std::size_t most_short, unsigned short_tag, unsigned tag16) {
        if (count <= most_short) put(short_tag | count, 1);
        else if (count < 65536) put(tag16, 1), put(count, 2);
        else put(tag16 + 1, 1), put(count, 4);
    }
};

// Reads what is expected and nothing else; a count or a length beyond what is left is refused before anything is made
// of it, and nothing here recurses.
class Reader {
  public:
    Reader(const void *data, std::size_t size) : at_(static_cast<const unsigned char *>(data)), left_(size) {}

    bool is_at_end() const { return left_ == 0; }

    std::size_t map() {
        const unsigned tag = byte();
        return fitting((tag & 0xf0) == 0x80 ? tag & 15
                       : tag == 0xde        ? big(2)
                       : tag == 0xdf        ? big(4)
                                            : wrong("a map"),
                       2);
    }
    std::size_t array(std::size_t most) {
        const unsigned tag = byte();
        const std::size_t items = fitting((tag & 0xf0) == 0x90 ? tag & 15
                                          : tag == 0xdc        ? big(2)
                                          : tag == 0xdd        ? big(4)
                                                               : wrong("an array"),
                                          1);
        if (items > most) throw Malformed("an array of " + std::to_string(items) + " items");
        return items;
    }
    std::string text(std::size_t most_characters = LONGEST_TEXT) {
        const unsigned tag = byte();
        const std::size_t size = fitting((tag & 0xe0) == 0xa0 ? tag & 31
                                         : tag == 0xd9        ? big(1)
                                         : tag == 0xda        ? big(2)
                                         : tag == 0xdb        ? big(4)
                                                              : wrong("text"),
                                         1);
        if (size > 4 * most_characters) throw Malformed("a text of " + std::to_string(size) + " bytes");
        const std::string found = take(size);
        bool valid = true;
        if (count_characters(found, valid) > most_characters || !valid) throw Malformed("a text that is none");
        return found;
    }
    std::string binary(std::size_t exactly) {
        const unsigned tag = byte();
        const std::size_t size = fitting(tag == 0xc4   ? big(1)
                                         : tag == 0xc5 ? big(2)
                                         : tag == 0xc6 ? big(4)
                                                       : wrong("bytes"),
                                         1);
        if (size != exactly)
            throw Malformed(std::to_string(size) + " bytes where " + std::to_string(exactly) + " belong");
        return take(size);
    }
    std::int64_t integer(std::int64_t least, std::int64_t most = LARGEST) {
        const std::int64_t found = any_integer();
        if (found < least || found > most) throw Malformed("the number " + std::to_string(found) + " is out of range");
        return found;
    }
    std::int64_t any_integer() {
        const unsigned tag = byte();
        if (tag < 0x80) return tag;
        if (tag >= 0xe0) return std::int64_t(tag) - 256;
        if (tag >= 0xcc && tag <= 0xcf) {
            const std::uint64_t found = big(1u << (tag - 0xcc));
            if (found > std::uint64_t(LARGEST)) throw Malformed("a number beyond 2^63");
            return std::int64_t(found);
        }
        if (tag >= 0xd0 && tag <= 0xd3) {
            const unsigned bits = 8u << (tag - 0xd0);
            const std::uint64_t found = big(bits / 8), sign = std::uint64_t(1) << (bits - 1);
            const std::uint64_t wide = (found ^ sign) - sign; // extends the sign
            std::int64_t number = 0;
            std::memcpy(&number, &wide, 8);
            return number;
        }
        wrong("an integer");
    }
    double number() { // a float or an integer, and not nan
        const unsigned tag = left_ ? *at_ : 0;
        double found = 0;
        if (tag == 0xca) {
            byte();
            const auto bits = static_cast<std::uint32_t>(big(4));
            float single = 0;
            std::memcpy(&single, &bits, 4);
            found = double(single);
        } else if (tag == 0xcb) {
            byte();
            const std::uint64_t bits = big(8);
            std::memcpy(&found, &bits, 8);
        } else {
            found = double(any_integer());
        }
        if (std::isnan(found)) throw Malformed("nan");
        return found;
    }
    bool boolean() {
        const unsigned tag = byte();
        return tag == 0xc3 || (tag != 0xc2 && wrong("a boolean"));
    }
    // Passes over one value of any type.
    void skip() {
        for (std::uint64_t values = 1; values > 0; --values) {
            const unsigned tag = byte();
            std::uint64_t size = 0, inner = 0;
            if (tag < 0x80 || tag >= 0xe0 || tag == 0xc0 || tag == 0xc2 || tag == 0xc3) {
                continue;
            } else if (tag < 0x90) {
                inner = 2 * std::uint64_t(tag & 15);
            } else if (tag < 0xa0) {
                inner = tag & 15;
            } else if (tag < 0xc0) {
                size = tag & 31;
            } else if (tag >= 0xc4 && tag <= 0xc6) {
                size = big(1u << (tag - 0xc4));
            } else if (tag >= 0xc7 && tag <= 0xc9) {
                size = big(1u << (tag - 0xc7)) + 1;
            } else if (tag == 0xca || tag == 0xcb) {
                size = tag == 0xca ? 4 : 8;
            } else if (tag >= 0xcc && tag <= 0xd3) {
                size = 1u << ((tag - 0xcc) & 3);
            } else if (tag >= 0xd4 && tag <= 0xd8) {
                size = (1u << (tag - 0xd4)) + 1;
            } else if (tag >= 0xd9 && tag <= 0xdb) {
                size = big(1u << (tag - 0xd9));
            } else if (tag >= 0xdc && tag <= 0xdf) {
                inner = big(tag & 1 ? 4 : 2) * (tag >= 0xde ? 2 : 1);
            } else {
                wrong("a value");
            }
            advance(size);
            values += inner;
            if (values - 1 > left_) throw Malformed("fewer values than it claims"); // each has a byte at least
        }
    }

  private:
    [[noreturn]] static std::size_t wrong(const char *expected) { throw Malformed(std::string("not ") + expected); }
    const unsigned char *advance(std::uint64_t size) {
        if (size > left_) throw Malformed("cut short");
        const unsigned char *found = at_;
        at_ += size;
        left_ -= std::size_t(size);
        return found;
    }
    unsigned byte() { return *advance(1); }
    std::uint64_t big(unsigned size) {
        const unsigned char *bytes = advance(size);
        std::uint64_t value = 0;
        for (unsigned i = 0; i < size; ++i) value = value << 8 | bytes[i];
        return value;
    }
    std::string take(std::size_t size) { return std::string(reinterpret_cast<const char *>(advance(size)), size); }
    std::size_t fitting(std::uint64_t count, std::size_t least_bytes) const {
        if (count > left_ / least_bytes) throw Malformed("fewer values than it claims");
        return std::size_t(count);
    }

    const unsigned char *at_;
    std::size_t left_;
};

// Reads a map whose keys are all known, each at most once: `take(i)` reads the value of the i-th name. The first
// `needed` names must be there.
template <class Take>
void read_map(Reader &in, std::initializer_list<const char *> names, std::size_t needed, Take take) {
    std::uint32_t seen = 0;
    for (std::size_t entries = in.map(); entries > 0; --entries) {
        const std::string key = in.text(64);
        const auto found = std::find(names.begin(), names.end(), key);
        if (found == names.end()) throw Malformed("unknown key '" + brief(key) + "'");
        const auto place = std::size_t(found - names.begin());
        if (seen >> place & 1u) throw Malformed("a key twice: " + key);
        seen |= 1u << place;
        take(place);
    }
    const std::uint32_t all = (1u << needed) - 1;
    if ((seen & all) != all) throw Malformed("a key is missing");
}

// --------------------------------------------------------------------------- 4  messages and frames

struct Request {
    std::string kind, client, epoch;
    std::int64_t lanes = 0, session = 0, number = 0;
};

struct Answer {
    std::string kind, client, epoch, reason;
    std::int64_t lanes = 0, most_lanes = 0, session = 0, number = 0;
    bool busy = false;
    Spec spec;
    std::map<std::int64_t, std::string> faults;
};

inline Writer begin_header(const char *kind, std::size_t further_entries) {
    Writer out;
    out.map(2 + further_entries);
    out.text("whorl"), out.integer(1);
    out.text("kind"), out.text(kind);
    return out;
}

inline Bytes encode(const Request &request) {
    const bool is_hello = request.kind == "hello", is_advance = request.kind == "advance";
    Writer out = begin_header(request.kind.c_str(), is_advance ? 3 : 2);
    if (is_hello) {
        out.text("client"), out.binary(request.client);
        out.text("lanes"), out.integer(request.lanes);
    } else {
        out.text("epoch"), out.binary(request.epoch);
        out.text("session"), out.integer(request.session);
    }
    if (is_advance) out.text("number"), out.integer(request.number);
    return out.bytes;
}

inline void write_shape(Writer &out, const std::vector<std::int64_t> &numbers) {
    out.array(numbers.size());
    for (const std::int64_t number : numbers) out.integer(number);
}

inline void write_spec(Writer &out, const Spec &spec) {
    out.map(5);
    out.text("observation"), out.array(spec.observation.size());
    for (const Leaf &leaf : spec.observation) {
        out.map(9);
        out.text("name"), out.text(leaf.name);
        out.text("kind"), out.text(leaf.kind);
        out.text("dtype"), out.text(leaf.dtype);
        out.text("shape"), write_shape(out, leaf.shape);
        out.text("low"), out.number(leaf.low);
        out.text("high"), out.number(leaf.high);
        out.text("n"), out.integer(leaf.n);
        out.text("frames"), out.integer(leaf.frames);
        out.text("padding"), out.text(leaf.padding);
    }
    out.text("action"), out.map(6);
    out.text("kind"), out.text(spec.action.kind);
    out.text("dtype"), out.text(spec.action.dtype);
    out.text("shape"), write_shape(out, spec.action.shape);
    out.text("nvec"), write_shape(out, spec.action.nvec);
    for (const auto &[name, bounds] :
         {std::make_pair("low", &spec.action.low), std::make_pair("high", &spec.action.high)}) {
        out.text(name), out.array(bounds->size());
        for (const double bound : *bounds) out.number(bound);
    }
    out.text("max_episode_steps"), out.integer(spec.max_episode_steps);
    out.text("restore"), out.text(spec.replay ? "replay" : "none");
    out.text("episode_metrics"), out.array(spec.episode_metrics.size());
    for (const std::string &name : spec.episode_metrics) out.text(name);
}

// What kind of message a header is; looks at all of it, whatever is in there.
inline std::string kind_of(const Bytes &header, std::size_t most_bytes) {
    if (header.size() > most_bytes) throw Malformed("a header of " + std::to_string(header.size()) + " bytes");
    Reader in(header.data(), header.size());
    std::string kind;
    std::int64_t version = 0;
    bool has_version = false;
    for (std::size_t entries = in.map(); entries > 0; --entries) {
        const std::string key = in.text(most_bytes);
        Reader value = in;
        in.skip();
        if (key == "whorl") version = value.any_integer(), has_version = true;
        if (key == "kind") try {
                kind = value.text(64);
            } catch (const Malformed &) {
                kind.clear();
            }
    }
    if (!in.is_at_end() || !has_version) throw Malformed("not a header");
    if (version != 1) throw OtherVersion(version);
    return kind;
}

inline Request decode_request(const Bytes &header) {
    Request request;
    request.kind = kind_of(header, REQUEST_HEADER_BYTES);
    Reader in(header.data(), header.size());
    const auto pass = [&in] { in.skip(); }; // whorl and kind: known by now
    if (request.kind == "hello") {
        read_map(in, {"whorl", "kind", "client", "lanes"}, 4, [&](std::size_t key) {
            if (key == 2) request.client = in.binary(16);
            else if (key == 3) request.lanes = in.integer(1, MOST_LANES);
            else pass();
        });
    } else if (request.kind == "advance" || request.kind == "bye") {
        const auto take = [&](std::size_t key) {
            if (key == 2) request.epoch = in.binary(8);
            else if (key == 3) request.session = in.integer(0);
            else if (key == 4) request.number = in.integer(1);
            else pass();
        };
        if (request.kind == "advance") read_map(in, {"whorl", "kind", "epoch", "session", "number"}, 5, take);
        else read_map(in, {"whorl", "kind", "epoch", "session"}, 4, take);
    } else if (request.kind == "ping") {
        read_map(in, {"whorl", "kind", "number"}, 2, [&](std::size_t key) {
            if (key == 2) request.number = in.integer(0);
            else pass();
        });
    } else {
        throw Malformed("no such kind");
    }
    return request;
}

inline std::vector<std::int64_t> read_shape(Reader &in, std::size_t most) {
    std::vector<std::int64_t> numbers(in.array(most));
    for (std::int64_t &number : numbers) number = in.integer(1);
    return numbers;
}

inline std::vector<double> read_bounds(Reader &in) {
    std::vector<double> bounds(in.array(ANSWER_HEADER_BYTES));
    for (double &bound : bounds) bound = in.number();
    return bounds;
}

inline Leaf read_leaf(Reader &in) {
    Leaf leaf;
    read_map(in, {"name", "kind", "dtype", "shape", "low", "high", "n", "frames", "padding"}, 6, [&](std::size_t key) {
        switch (key) {
            case 0: leaf.name = in.text(); break;
            case 1: leaf.kind = in.text(64); break;
            case 2: leaf.dtype = in.text(64); break;
            case 3: leaf.shape = read_shape(in, MOST_AXES); break;
            case 4: leaf.low = in.number(); break;
            case 5: leaf.high = in.number(); break;
            case 6: leaf.n = in.integer(0); break;
            case 7: leaf.frames = in.integer(1, 255); break;
            default: leaf.padding = in.text(64);
        }
    });
    return leaf;
}

inline ActionSpec read_action(Reader &in) {
    ActionSpec action;
    read_map(in, {"kind", "dtype", "shape", "nvec", "low", "high"}, 3, [&](std::size_t key) {
        switch (key) {
            case 0: action.kind = in.text(64); break;
            case 1: action.dtype = in.text(64); break;
            case 2: action.shape = read_shape(in, MOST_AXES); break;
            case 3: action.nvec = read_shape(in, ANSWER_HEADER_BYTES); break;
            case 4: action.low = read_bounds(in); break;
            default: action.high = read_bounds(in);
        }
    });
    return action;
}

inline Spec read_spec(Reader &in) {
    Spec spec;
    const auto names = {"observation", "action", "max_episode_steps", "restore", "episode_metrics"};
    read_map(in, names, 4, [&](std::size_t key) {
        if (key == 0) {
            for (std::size_t leaves = in.array(MOST_LEAVES); leaves > 0; --leaves)
                spec.observation.push_back(read_leaf(in));
        } else if (key == 1) {
            spec.action = read_action(in);
        } else if (key == 2) {
            spec.max_episode_steps = in.integer(1);
        } else if (key == 3) {
            const std::string restore = in.text(64);
            spec.replay = restore == "replay";
            if (!spec.replay && restore != "none") throw Malformed("restore: " + brief(restore));
        } else {
            for (std::size_t metrics = in.array(MOST_METRICS); metrics > 0; --metrics)
                spec.episode_metrics.push_back(in.text());
        }
    });
    check_spec(spec);
    return spec;
}

inline Answer decode_answer(const Bytes &header) {
    Answer answer;
    answer.kind = kind_of(header, ANSWER_HEADER_BYTES);
    Reader in(header.data(), header.size());
    const auto pass = [&in] { in.skip(); };
    if (answer.kind == "welcome") {
        const auto names = {"whorl", "kind", "client", "epoch", "session", "lanes", "most_lanes", "env", "spec"};
        std::string env;
        read_map(in, names, 9, [&](std::size_t key) {
            switch (key) {
                case 2: answer.client = in.binary(16); break;
                case 3: answer.epoch = in.binary(8); break;
                case 4: answer.session = in.integer(0); break;
                case 5: answer.lanes = in.integer(1, MOST_LANES); break;
                case 6: answer.most_lanes = in.integer(1, MOST_LANES); break;
                case 7: env = in.text(); break;
                case 8: answer.spec = read_spec(in); break;
                default: pass();
            }
        });
        answer.spec.name = brief(env);
    } else if (answer.kind == "advanced") {
        read_map(in, {"whorl", "kind", "epoch", "session", "number", "faults"}, 5, [&](std::size_t key) {
            if (key == 2) answer.epoch = in.binary(8);
            else if (key == 3) answer.session = in.integer(0);
            else if (key == 4) answer.number = in.integer(1);
            else if (key == 5)
                for (std::size_t faults = in.map(); faults > 0; --faults) {
                    const std::int64_t lane = in.integer(0, MOST_LANES - 1);
                    answer.faults[lane] = brief(in.text());
                }
            else pass();
        });
    } else if (answer.kind == "lost") {
        read_map(in, {"whorl", "kind", "epoch", "number"}, 4, [&](std::size_t key) {
            if (key == 2) answer.epoch = in.binary(8);
            else if (key == 3) answer.number = in.integer(1);
            else pass();
        });
    } else if (answer.kind == "refused") {
        read_map(in, {"whorl", "kind", "number", "reason", "busy"}, 4, [&](std::size_t key) {
            if (key == 2) answer.number = in.integer(0);
            else if (key == 3) answer.reason = brief(in.text());
            else if (key == 4) answer.busy = in.boolean();
            else pass();
        });
    } else if (answer.kind == "pong") {
        read_map(in, {"whorl", "kind", "number", "epoch", "counts"}, 5, [&](std::size_t key) {
            if (key == 2) answer.number = in.integer(0);
            else if (key == 3) answer.epoch = in.binary(8);
            else if (key == 4)
                for (std::size_t counts = in.map(); counts > 0; --counts) in.text(), in.any_integer();
            else pass();
        });
    } else {
        throw Malformed("no such kind");
    }
    return answer;
}

// The length of each frame of an advance, and of its answer; refuses what is too large for anybody.
inline std::vector<std::size_t> checked(std::vector<std::size_t> bytes) {
    for (const std::size_t size : bytes)
        if (size > MOST_FRAME_BYTES)
            throw Malformed("a frame of " + std::to_string(size) + " bytes, and 1 GiB is the most");
    return bytes;
}

inline std::vector<std::size_t> request_bytes(const Spec &spec, std::size_t lanes) {
    return checked({lanes, 8 * lanes, lanes * elements(spec.action.shape) * item_bytes(spec.action.dtype)});
}

inline std::vector<std::size_t> answer_bytes(const Spec &spec, std::size_t lanes) {
    std::vector<std::size_t> bytes = {lanes, 8 * lanes, lanes, lanes};
    if (!spec.episode_metrics.empty()) bytes.push_back(lanes * 8 * spec.episode_metrics.size());
    for (const Leaf &leaf : spec.observation) bytes.push_back(lanes * elements(leaf.shape) * item_bytes(leaf.dtype));
    return checked(bytes);
}

// Frames as an answer has them: status, reward, terminated, truncated, perhaps metrics, then the leaves.
enum AnswerFrame : std::size_t { STATUS, REWARD, TERMINATED, TRUNCATED, METRICS };

inline std::size_t first_leaf(const Spec &spec) {
    return spec.episode_metrics.empty() ? METRICS : METRICS + 1;
}

inline bool fits(const std::vector<std::size_t> &expected, const Parts &parts, std::size_t first) {
    if (parts.size() != first + expected.size()) return false;
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (parts[first + i].size() != expected[i]) return false;
    return true;
}

// The item of an array in a frame. Frames come from the allocator, and so are aligned for every type.
template <class T> T *item(Bytes &frame, std::size_t index) {
    return reinterpret_cast<T *>(frame.data()) + index;
}
template <class T> const T *item(const Bytes &frame, std::size_t index) {
    return reinterpret_cast<const T *>(frame.data()) + index;
}

// --------------------------------------------------------------------------- 5  addresses, keys, sockets

inline void check_address(const std::string &address) {
    const bool is_ipc = address.rfind("ipc://", 0) == 0, is_tcp = address.rfind("tcp://", 0) == 0;
    if (is_ipc && address.size() > 6 && address[6] != '@' && address.size() - 6 <= 107) return;
    if (is_tcp && address.rfind(':') > 6 && address.rfind(':') + 1 < address.size()) return;
    throw Error(brief(address) + ": expected tcp://HOST:PORT or ipc://PATH (of at most 107 bytes)");
}

inline bool is_private_address(const std::string &address) {
    if (address.rfind("ipc://", 0) == 0) return true;
    const std::string host = address.substr(6, address.rfind(':') - 6);
    const bool is_number = host.find_first_not_of("0123456789.") == std::string::npos;
    return host == "localhost" || host == "[::1]" || (is_number && host.rfind("127.", 0) == 0);
}

inline void check_ours_alone(const std::string &path, const std::string &what_to_do) {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0) throw Error("there is no " + path + "; " + what_to_do);
    if (status.st_uid != getuid() || (status.st_mode & 077) != 0)
        throw Error(path + " must be yours, and nobody else's to read; " + what_to_do);
}

// Whoever may enter the folder of a Unix socket may connect; and binding would take the place of a running server.
inline void check_socket_folder(const std::string &address) {
    const std::string path = address.substr(6);
    const std::string folder = std::filesystem::path(path).parent_path().string();
    check_ours_alone(folder.empty() ? "." : folder, "use a folder of your own: mkdir -m 700 DIR");
    struct stat status{};
    if (lstat(path.c_str(), &status) != 0) return;
    if (!S_ISSOCK(status.st_mode)) throw Error(address + ": " + path + " is there and is no socket; use another name");
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    std::memcpy(place.sun_path, path.c_str(), std::min(path.size(), sizeof place.sun_path - 1));
    const int tried = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool answers = tried >= 0 && ::connect(tried, reinterpret_cast<sockaddr *>(&place), sizeof place) == 0;
    if (tried >= 0) ::close(tried);
    if (answers) throw Error(address + ": a server is running there already; use another path, or end that one");
}

inline std::string read_key(const std::string &folder, const std::string &name) {
    const std::string path = folder + "/" + name, mend = "`whorl env keys DIR` makes keys (files 0600, folders 0700)";
    check_ours_alone(folder, mend);
    check_ours_alone(path, mend);
    std::ifstream file(path);
    std::string key;
    file >> key;
    unsigned char raw[32];
    if (key.size() != 40 || zmq_z85_decode(raw, key.c_str()) == nullptr)
        throw Error(path + " holds no key: one line of 40 characters; " + mend);
    return key;
}

inline std::set<std::string> read_client_keys(const std::string &folder) {
    std::set<std::string> keys;
    check_ours_alone(folder + "/clients", "`whorl env keys DIR` makes it");
    for (const auto &entry : std::filesystem::directory_iterator(folder + "/clients"))
        if (entry.path().extension() == ".public")
            keys.insert(read_key(folder + "/clients", entry.path().filename().string()));
    if (keys.empty())
        throw Error(folder + "/clients names no client; put each public key into a file NAME.public there");
    return keys;
}

struct CloseContext {
    void operator()(void *context) const { zmq_ctx_term(context); }
};
struct CloseSocket {
    void operator()(void *socket) const { zmq_close(socket); }
};
using Context = std::unique_ptr<void, CloseContext>;
using Socket = std::unique_ptr<void, CloseSocket>;

inline Error zmq_error(const std::string &what) {
    return Error(what + ": " + zmq_strerror(zmq_errno()));
}

inline Socket open_socket(void *context, int type) {
    Socket socket(zmq_socket(context, type));
    if (!socket) throw zmq_error("no socket can be opened");
    return socket;
}

inline void set_option(const Socket &socket, int option, int value) {
    if (zmq_setsockopt(socket.get(), option, &value, sizeof value) != 0) throw zmq_error("a socket's option");
}

inline void set_option(const Socket &socket, int option, const std::string &key) {
    if (zmq_setsockopt(socket.get(), option, key.c_str(), key.size()) != 0)
        throw zmq_error("a key cannot be used (does this libzmq have CURVE?)");
}

inline void set_most_bytes(const Socket &socket, std::size_t most) {
    const auto bytes = std::int64_t(most);
    if (zmq_setsockopt(socket.get(), ZMQ_MAXMSGSIZE, &bytes, sizeof bytes) != 0) throw zmq_error("a socket's option");
}

inline std::string public_key(const std::string &secret) {
    char key[41] = {};
    if (zmq_curve_public(key, secret.c_str()) != 0) throw zmq_error("a key cannot be used");
    return key;
}

// One message, if there is one: its first `most` parts, and `count` of all parts.
inline bool receive(void *socket, Parts &parts, std::size_t most, std::size_t &count) {
    parts.clear();
    count = 0;
    for (bool more = true; more;) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&part);
            return false;
        }
        if (++count <= most) {
            const auto *data = static_cast<const unsigned char *>(zmq_msg_data(&part));
            parts.emplace_back(data, data + zmq_msg_size(&part));
        }
        more = zmq_msg_more(&part) != 0;
        zmq_msg_close(&part);
    }
    return true;
}

// Whether it could be sent at once; EAGAIN and EHOSTUNREACH can only come of the first part.
inline bool send_part(void *socket, const Bytes &part, bool more) {
    return zmq_send(socket, part.data(), part.size(), ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0;
}

} // namespace detail

// --------------------------------------------------------------------------- 6  the client

struct ClientOptions {
    std::string keys;             // a folder with server.public and client.secret; empty: none
    double patience_s = 60.0;     // how long to wait for an answer, with as many retries as fit in
    double first_attempt_s = 2.0; // asks again after so long, then after twice that, up to every 15 s
    bool bring_back = true;       // after a restart of the server, step the episodes again from their seeds
};

// Some copies of a served environment, its lanes. Ask each lane for a reset or a step, then `advance` does it all with
// one message; lanes not asked are left alone. No episode begins by itself: reset a lane whose episode has ended.
class Client {
  public:
    Client(std::string address, std::size_t lanes, ClientOptions options = {})
        : address_(std::move(address)), options_(std::move(options)), lanes_(lanes), context_(zmq_ctx_new()) {
        detail::check_address(address_);
        if (lanes < 1 || lanes > detail::MOST_LANES) throw Error(address_ + ": a session has 1 to 4096 lanes");
        if (!options_.keys.empty()) {
            server_key_ = detail::read_key(options_.keys, "server.public");
            secret_key_ = detail::read_key(options_.keys, "client.secret");
        }
        episodes_.resize(lanes);
        open();
        asked_ = blank();
    }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;

    ~Client() {
        if (!is_open_ || !socket_) return;
        detail::Request bye;
        bye.kind = "bye", bye.epoch = welcome_.epoch, bye.session = welcome_.session;
        detail::send_part(socket_.get(), detail::encode(bye), false);
        const int linger = detail::LINGER_MS;
        zmq_setsockopt(socket_.get(), ZMQ_LINGER, &linger, sizeof linger);
    }

    const Spec &spec() const { return spec_; }
    std::size_t lanes() const { return lanes_; }

    // What `advance` shall do.
    void reset(std::size_t lane, std::uint64_t seed) {
        ask(lane, detail::RESET);
        *detail::item<std::uint64_t>(asked_[1], lane) = seed;
    }
    void step(std::size_t lane, std::int64_t choice) { step(lane, &choice, 1); }
    void step(std::size_t lane, const std::vector<std::int64_t> &choices) {
        step(lane, choices.data(), choices.size());
    }
    void step(std::size_t lane, const std::vector<float> &values) { step(lane, values.data(), values.size()); }
    void step(std::size_t lane, const std::int64_t *choices, std::size_t count) { take(lane, choices, count, "int64"); }
    void step(std::size_t lane, const float *values, std::size_t count) { take(lane, values, count, "float32"); }

    // Does it, exactly once, however bad the network is. Throws `EpisodesLost` when the server was restarted and they
    // cannot be brought back, another `Error` when nobody answers or nothing can come of it.
    void advance() {
        detail::Parts asked = blank();
        asked.swap(asked_);
        for (int losses = 0;;) {
            try {
                if (!is_open_) {
                    open();
                    bring_back(asked);
                }
                answer_ = perform(asked);
                break;
            } catch (const detail::SessionLost &) { // three times at one step: it may be what ends the server
                if (!options_.bring_back || ++losses >= 3)
                    give_up(address_ + ": the server does not know this session");
            }
        }
        note(asked);
    }

    // What came of it. A lane that failed must be reset.
    double reward(std::size_t lane) const { return *in<double>(detail::REWARD, lane); }
    bool terminated(std::size_t lane) const { return *in<unsigned char>(detail::TERMINATED, lane) != 0; }
    bool truncated(std::size_t lane) const { return *in<unsigned char>(detail::TRUNCATED, lane) != 0; }
    bool failed(std::size_t lane) const { return *in<unsigned char>(detail::STATUS, lane) > detail::DONE; }
    std::string fault(std::size_t lane) const {
        const auto found = faults_.find(std::int64_t(lane));
        return found == faults_.end() ? "" : found->second;
    }
    // The observation, leaf by leaf, and the metrics of an episode that has just ended (nan: not known).
    const float *vector(std::size_t lane, std::size_t leaf = 0) const { return leaf_of<float>(lane, leaf, "vector"); }
    const unsigned char *image(std::size_t lane, std::size_t leaf = 0) const {
        return leaf_of<unsigned char>(lane, leaf, "image");
    }
    std::int64_t discrete(std::size_t lane, std::size_t leaf = 0) const {
        return *leaf_of<std::int64_t>(lane, leaf, "discrete");
    }
    double metric(std::size_t lane, std::size_t index) const {
        if (index >= spec_.episode_metrics.size())
            throw Error(address_ + ": there is no metric " + std::to_string(index));
        return *in<double>(detail::METRICS, lane * spec_.episode_metrics.size() + index);
    }

  private:
    struct Episode {
        bool is_under_way = false;
        std::uint64_t seed = 0;
        std::int64_t length = 0;
        std::vector<detail::Bytes> actions;
    };

    std::size_t lane_bytes(std::size_t frame) const { return answer_[frame].size() / lanes_; }

    template <class T> const T *in(std::size_t frame, std::size_t index) const {
        if (answer_.empty()) throw Error(address_ + ": advance() first");
        if ((index + 1) * sizeof(T) > answer_[frame].size()) throw Error(address_ + ": there is no such lane");
        return detail::item<T>(answer_[frame], index);
    }

    template <class T> const T *leaf_of(std::size_t lane, std::size_t leaf, const char *kind) const {
        if (leaf >= spec_.observation.size() || spec_.observation[leaf].kind != kind)
            throw Error(address_ + ": leaf " + std::to_string(leaf) + " of the observation is no " + kind);
        return in<T>(detail::first_leaf(spec_) + leaf, lane * detail::elements(spec_.observation[leaf].shape));
    }

    detail::Parts blank() const {
        detail::Parts frames;
        for (const std::size_t bytes : detail::request_bytes(spec_, lanes_)) frames.emplace_back(bytes, 0);
        return frames;
    }

    void ask(std::size_t lane, detail::Op op) {
        if (lane >= lanes_) throw Error(address_ + ": there is no lane " + std::to_string(lane));
        asked_[0][lane] = op;
    }

    template <class T> void take(std::size_t lane, const T *items, std::size_t count, const char *dtype) {
        const std::size_t expected = detail::elements(spec_.action.shape);
        if (spec_.action.dtype != dtype || count != expected)
            throw Error(address_ + ": a step takes " + std::to_string(expected) + " " + spec_.action.dtype);
        ask(lane, detail::STEP);
        std::copy(items, items + count, detail::item<T>(asked_[2], lane * count));
    }

    void open() {
        detail::Request hello;
        hello.kind = "hello", hello.client = detail::random_bytes(16), hello.lanes = std::int64_t(lanes_);
        const double stop_s = detail::now_s() + options_.patience_s;
        const auto fits = [&](const detail::Answer &answer, const detail::Parts &) {
            return (answer.kind == "welcome" && answer.client == hello.client) ||
                   (answer.kind == "refused" && answer.number == 0);
        };
        for (;;) {
            detail::Parts parts = {detail::encode(hello)};
            welcome_ = exchange(parts, fits, stop_s);
            if (welcome_.kind == "welcome") break;
            if (!welcome_.busy || detail::now_s() + 0.2 > stop_s)
                throw Error(address_ + ": refused: " + welcome_.reason);
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
        }
        if (welcome_.lanes != hello.lanes) throw Error(address_ + ": the server gave another number of lanes");
        if (is_known_ && !spec_.same_spaces(welcome_.spec))
            throw Error(address_ + ": the server there now serves " + welcome_.spec.name +
                        ", with other spaces than at the start");
        std::size_t largest = detail::ANSWER_HEADER_BYTES;
        try {
            answer_bytes_ = detail::answer_bytes(welcome_.spec, lanes_);
            detail::request_bytes(welcome_.spec, lanes_);
        } catch (const detail::Malformed &reason) {
            throw Error(address_ + ": its arrays cannot be taken: " + reason.what());
        }
        for (const std::size_t bytes : answer_bytes_) largest = std::max(largest, bytes);
        if (largest > most_bytes_) most_bytes_ = largest, socket_.reset(); // opened again with the larger limit
        spec_ = welcome_.spec, is_known_ = true, number_ = 0, is_open_ = true;
    }

    // The answer's frames.
    detail::Parts perform(const detail::Parts &asked) {
        detail::Request request;
        request.kind = "advance", request.epoch = welcome_.epoch, request.session = welcome_.session;
        request.number = number_ + 1;
        const auto fits = [&](const detail::Answer &answer, const detail::Parts &parts) {
            if (answer.number != request.number) return false;
            if (answer.kind == "advanced")
                return answer.epoch == request.epoch && answer.session == request.session &&
                       detail::fits(answer_bytes_, parts, 1);
            return answer.kind == "lost" || answer.kind == "refused";
        };
        detail::Parts parts = {detail::encode(request)};
        parts.insert(parts.end(), asked.begin(), asked.end());
        is_open_ = false; // until it is answered: another request with this number must never follow
        detail::Answer answer = exchange(parts, fits, detail::now_s() + options_.patience_s);
        if (answer.kind == "lost") throw detail::SessionLost(address_);
        if (answer.kind == "refused") throw Error(address_ + ": refused: " + answer.reason);
        number_ = request.number, is_open_ = true;
        faults_ = std::move(answer.faults);
        parts.erase(parts.begin());
        for (std::size_t lane = 0; lane < lanes_; ++lane)
            if (parts[detail::STATUS][lane] >= detail::FORBIDDEN)
                throw Error(address_ + ": lane " + std::to_string(lane) + ": " + fault(lane));
        return parts;
    }

    // Sends until an answer fits, which then stands in `parts`.
    template <class Fits> detail::Answer exchange(detail::Parts &parts, const Fits &fits, double stop_s) {
        double attempt_s = std::min(std::max(options_.first_attempt_s, 4 * slowest_s_), 15.0);
        for (;;) {
            if (!socket_) connect();
            const double sent_s = detail::now_s();
            for (std::size_t i = 0; i < parts.size(); ++i)
                if (!detail::send_part(socket_.get(), parts[i], i + 1 < parts.size())) break; // asked again later
            const double until_s = std::min(sent_s + attempt_s, stop_s);
            detail::Answer answer;
            detail::Parts heard;
            while (hear(answer, heard, until_s))
                if (fits(answer, heard)) {
                    slowest_s_ = std::max(slowest_s_, detail::now_s() - sent_s);
                    parts.swap(heard);
                    return answer;
                }
            socket_.reset(); // with whatever is still queued in it
            if (detail::now_s() >= stop_s)
                throw Error(address_ + ": no answer for " + std::to_string(options_.patience_s) +
                            " s: is a server running there" + (server_key_.empty() ? ", and does it want keys?" : "?"));
            attempt_s = std::min(2 * attempt_s, 15.0);
        }
    }

    // The next message that can be read, until its time is over.
    bool hear(detail::Answer &answer, detail::Parts &parts, double until_s) {
        for (double left_s; (left_s = until_s - detail::now_s()) > 0;) {
            zmq_pollitem_t waited = {socket_.get(), 0, ZMQ_POLLIN, 0};
            if (zmq_poll(&waited, 1, std::max(1L, long(left_s * 1000))) <= 0) continue;
            std::size_t count = 0;
            const std::size_t most = 1 + detail::METRICS + 1 + detail::MOST_LEAVES;
            if (!detail::receive(socket_.get(), parts, most, count) || count > most) continue;
            try {
                answer = detail::decode_answer(parts[0]);
                return true;
            } catch (const detail::OtherVersion &other) {
                throw Error(address_ + ": the server speaks " + other.what() + ", and we protocol 1");
            } catch (const detail::Malformed &) {
                continue;
            }
        }
        return false;
    }

    void connect() {
        detail::Socket socket = detail::open_socket(context_.get(), ZMQ_DEALER);
        detail::set_option(socket, ZMQ_LINGER, 0);
        detail::set_most_bytes(socket, most_bytes_);
        detail::set_option(socket, ZMQ_SNDHWM, 4);
        detail::set_option(socket, ZMQ_RCVHWM, 16);
        detail::set_option(socket, ZMQ_IPV6, address_.find('[') != std::string::npos);
        detail::set_option(socket, ZMQ_RECONNECT_IVL, 50);
        detail::set_option(socket, ZMQ_RECONNECT_IVL_MAX, 1000);
        if (!server_key_.empty()) {
            detail::set_option(socket, ZMQ_CURVE_SERVERKEY, server_key_);
            detail::set_option(socket, ZMQ_CURVE_SECRETKEY, secret_key_);
            detail::set_option(socket, ZMQ_CURVE_PUBLICKEY, detail::public_key(secret_key_));
        }
        if (zmq_connect(socket.get(), address_.c_str()) != 0) throw detail::zmq_error(address_);
        socket_ = std::move(socket);
    }

    // Remembers how each lane came to where it is now; ends episodes that are longer than they may be.
    void note(const detail::Parts &asked) {
        const std::size_t action_bytes = asked[2].size() / lanes_;
        for (std::size_t lane = 0; lane < lanes_; ++lane) {
            Episode &episode = episodes_[lane];
            if (asked[0][lane] == detail::LEAVE) continue;
            if (asked[0][lane] == detail::RESET) {
                episode = Episode();
                episode.is_under_way = true;
                episode.seed = *detail::item<std::uint64_t>(asked[1], lane);
            } else if (++episode.length >= spec_.max_episode_steps && !terminated(lane) && !failed(lane)) {
                answer_[detail::TRUNCATED][lane] = 1;
            }
            if (failed(lane) || terminated(lane) || truncated(lane)) {
                episode = Episode();
            } else if (asked[0][lane] == detail::STEP && options_.bring_back && spec_.replay) {
                const auto *action = asked[2].data() + lane * action_bytes;
                episode.actions.emplace_back(action, action + action_bytes);
            }
        }
    }

    // After a restart of the server: every lane amid an episode, and not reset anyway, to where it was.
    void bring_back(const detail::Parts &asked) {
        std::vector<std::size_t> lanes;
        std::size_t longest = 0;
        detail::Parts again = blank();
        for (std::size_t lane = 0; lane < lanes_; ++lane) {
            const Episode &episode = episodes_[lane];
            if (!episode.is_under_way || asked[0][lane] == detail::RESET) continue;
            if (episode.length > 0 && !spec_.replay)
                give_up(address_ + ": the server was restarted, and its episodes cannot be stepped again");
            lanes.push_back(lane);
            longest = std::max(longest, episode.actions.size());
            again[0][lane] = detail::RESET;
            *detail::item<std::uint64_t>(again[1], lane) = episode.seed;
        }
        if (lanes.empty()) return;
        detail::Parts shown = perform(again);
        check_going_on(again, shown);
        const std::size_t action_bytes = again[2].size() / lanes_;
        for (std::size_t row = 0; row < longest; ++row) {
            again = blank();
            for (const std::size_t lane : lanes) {
                if (row >= episodes_[lane].actions.size()) continue;
                again[0][lane] = detail::STEP;
                const detail::Bytes &action = episodes_[lane].actions[row];
                std::copy(action.begin(), action.end(), again[2].data() + lane * action_bytes);
            }
            shown = perform(again);
            check_going_on(again, shown);
        }
        for (std::size_t frame = detail::first_leaf(spec_); frame < shown.size(); ++frame)
            for (const std::size_t lane : lanes) {
                const std::size_t bytes = lane_bytes(frame);
                if (std::memcmp(shown[frame].data() + lane * bytes, answer_[frame].data() + lane * bytes, bytes) != 0)
                    led_elsewhere(lane);
            }
    }

    [[noreturn]] void give_up(const std::string &why) {
        for (Episode &episode : episodes_) episode = Episode();
        throw EpisodesLost(why);
    }

    [[noreturn]] void led_elsewhere(std::size_t lane) {
        give_up(address_ + ": lane " + std::to_string(lane) +
                ": the same seed and actions led elsewhere after the server's restart");
    }

    void check_going_on(const detail::Parts &asked, const detail::Parts &shown) {
        for (std::size_t lane = 0; lane < lanes_; ++lane)
            if (asked[0][lane] != detail::LEAVE && (shown[detail::STATUS][lane] != detail::DONE ||
                                                    shown[detail::TERMINATED][lane] || shown[detail::TRUNCATED][lane]))
                led_elsewhere(lane);
    }

    std::string address_;
    ClientOptions options_;
    std::size_t lanes_;
    std::string server_key_, secret_key_;
    detail::Context context_;
    detail::Socket socket_;
    std::size_t most_bytes_ = detail::ANSWER_HEADER_BYTES;
    detail::Answer welcome_;
    Spec spec_;
    bool is_known_ = false, is_open_ = false;
    std::int64_t number_ = 0;
    double slowest_s_ = 0;
    std::vector<std::size_t> answer_bytes_;
    std::vector<Episode> episodes_;
    detail::Parts asked_, answer_;
    std::map<std::int64_t, std::string> faults_;
};

// --------------------------------------------------------------------------- 7  the server

// What a step takes: choices of a discrete or multi_discrete action, values of a box.
struct Action {
    const std::int64_t *choices = nullptr;
    const float *values = nullptr;

    std::int64_t choice() const { return choices[0]; }
    float value() const { return values[0]; }
};

// What came of a reset or a step. Write the whole observation each time; metrics only when an episode ends.
struct Outcome {
    double reward = 0;
    bool terminated = false, truncated = false;
    double *metrics = nullptr;
    std::vector<unsigned char *> leaves;

    float *vector(std::size_t leaf = 0) const { return reinterpret_cast<float *>(leaves[leaf]); }
    unsigned char *image(std::size_t leaf = 0) const { return leaves[leaf]; }
    std::int64_t &discrete(std::size_t leaf = 0) const { return *reinterpret_cast<std::int64_t *>(leaves[leaf]); }
};

// Something to do: reset or step one of the copies, counted from 0.
struct Task {
    std::size_t copy = 0;
    bool is_reset = false;
    std::uint64_t seed = 0;
    Action action;
};

struct ServerOptions {
    std::string keys;            // a folder with server.secret and clients/; empty: none
    bool insecure = false;       // let other machines connect without keys
    double idle_s = 300.0;       // copies of a client that was silent for longer may be given to another
    bool stop_by_signals = true; // SIGTERM and SIGINT end `next`; a second one ends the process
};

namespace detail {

// Lets in clients with a known key only: answers the questions of libzmq's handshakes (ZAP), in a thread of its own.
class Guard {
  public:
    Guard(void *context, std::set<std::string> clients) : clients_(std::move(clients)) {
        socket_ = open_socket(context, ZMQ_REP);
        if (zmq_bind(socket_.get(), "inproc://zeromq.zap.01") != 0) throw zmq_error("keys cannot be checked");
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); // signals are for the thread that serves
        thread_ = std::thread([this] { run(); });
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    ~Guard() { thread_.join(); } // after zmq_ctx_shutdown

  private:
    void run() {
        Parts asked;
        std::size_t count = 0;
        for (;;) {
            zmq_pollitem_t waited = {socket_.get(), 0, ZMQ_POLLIN, 0};
            const int ready = zmq_poll(&waited, 1, -1);
            if (ready < 0 && zmq_errno() == ETERM) break;
            if (ready <= 0 || !receive(socket_.get(), asked, 16, count)) continue;
            bool known = asked.size() == 7 && asked[6].size() == 32;
            char key[41] = {};
            if (known) known = clients_.count(zmq_z85_encode(key, asked[6].data(), 32)) > 0;
            const auto say = [this](const std::string &word, bool more) {
                send_part(socket_.get(), Bytes(word.begin(), word.end()), more);
            };
            say("1.0", true);
            send_part(socket_.get(), asked.size() > 1 ? asked[1] : Bytes(), true);
            say(known ? "200" : "400", true), say(known ? "OK" : "unknown key", true), say("", true), say("", false);
        }
        socket_.reset();
    }

    std::set<std::string> clients_;
    Socket socket_;
    std::thread thread_;
};

inline std::atomic<int> signal_pipe{-1};
inline std::atomic<bool> was_signalled{false};

inline void on_signal(int number) {
    if (was_signalled.exchange(true)) _exit(number == SIGTERM ? 1 : 128 + number);
    const int before = errno, pipe = signal_pipe.load();
    if (pipe >= 0) (void)!write(pipe, "", 1);
    errno = before;
}

} // namespace detail

// Serves copies of an environment. For simulators that own their loop:
//
//     whorl::Server server("ipc:///home/me/s/env.sock", 8, spec);
//     whorl::Task task;
//     while (server.next(task)) {
//         ... reset or step copy `task.copy`, write what it shows into server.outcome() ...
//         server.done();                                                   // or server.failed("why")
//     }
class Server {
  public:
    Server(const std::string &address, std::size_t copies, Spec spec, ServerOptions options = {})
        : spec_(std::move(spec)), options_(std::move(options)), context_(zmq_ctx_new()) {
        detail::check_address(address);
        if (options_.keys.empty() && !options_.insecure && !detail::is_private_address(address))
            throw Error(address +
                        " can be reached from other machines: make keys with `whorl env keys DIR` and give their "
                        "folder (or say insecure, and anybody may step this environment)");
        if (copies < 1) throw Error(address + ": a server needs at least one copy");
        try {
            detail::check_spec(spec_);
            most_lanes_ = std::min(copies, detail::MOST_LANES);
            detail::answer_bytes(spec_, most_lanes_);
            for (const std::size_t bytes : detail::request_bytes(spec_, most_lanes_))
                most_bytes_ = std::max(most_bytes_, bytes);
        } catch (const detail::Malformed &reason) {
            throw Error(spec_.name + " cannot be served: " + reason.what());
        }
        spec_.name = detail::brief(spec_.name);
        epoch_ = detail::random_bytes(8);
        if (welcome(Session(), std::string(16, ' ')).size() > detail::ANSWER_HEADER_BYTES)
            throw Error(spec_.name + ": its spaces have too many bounds to tell them");
        for (std::size_t copy = copies; copy > 0; --copy) free_.push_back(copy - 1);
        bind(address);
        try {
            listen_to_signals();
        } catch (...) {
            close();
            throw;
        }
    }
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;
    ~Server() { close(); }

    const std::string &address() const { return address_; }
    const Spec &spec() const { return spec_; }
    const std::map<std::string, std::int64_t> &counts() const { return counts_; }

    // Waits for something to do; false when the server was told to stop.
    bool next(Task &task) {
        if (has_task_) throw Error("the last task was not answered: call done() or failed() before next()");
        for (;;) {
            if (at_work_ != nullptr && next_lane(task)) return true;
            if (at_work_ != nullptr) finish();
            if (is_stopping_ || (options_.stop_by_signals && detail::was_signalled)) return false;
            zmq_pollitem_t waited[] = {{router_.get(), 0, ZMQ_POLLIN, 0}, {nullptr, wake_[0], ZMQ_POLLIN, 0}};
            if (zmq_poll(waited, 2, -1) < 0) {
                if (zmq_errno() != EINTR) throw detail::zmq_error(address_);
                continue;
            }
            char byte;
            if (waited[1].revents) (void)!read(wake_[0], &byte, 1);
            if (waited[0].revents) serve_one();
        }
    }

    // Where the outcome of the task at hand goes.
    Outcome &outcome() { return outcome_; }

    // The task at hand is done.
    void done() {
        Session &session = take_task();
        const std::string forbidden = task_is_reset_ ? forbidden_observation() : forbidden_outcome();
        if (!forbidden.empty()) return fault(session, detail::FORBIDDEN, forbidden);
        const bool is_over = outcome_.terminated || outcome_.truncated;
        session.frames[detail::STATUS][lane_] = detail::DONE;
        session.takes_steps[lane_] = task_is_reset_ || !is_over;
        if (!task_is_reset_) {
            *detail::item<double>(session.frames[detail::REWARD], lane_) = outcome_.reward;
            session.frames[detail::TERMINATED][lane_] = outcome_.terminated;
            session.frames[detail::TRUNCATED][lane_] = outcome_.truncated;
            if (is_over && !metrics_.empty())
                std::copy(metrics_.begin(), metrics_.end(),
                          detail::item<double>(session.frames[detail::METRICS], lane_ * metrics_.size()));
        }
        ++lane_;
    }

    // The task at hand could not be done; its copy will be reset.
    void failed(const std::string &why) { fault(take_task(), detail::RAISED, why); }

    // Ends `next`; from another thread, too.
    void stop() {
        is_stopping_ = true;
        (void)!write(wake_[1], "", 1);
    }

  private:
    struct Session {
        std::int64_t number = 0;
        std::string client;
        detail::Bytes route, header; // where its last message came from; the header of its last answer
        std::vector<std::size_t> copies;
        std::vector<bool> takes_steps;
        detail::Parts frames; // of its last answer; written in place
        double seen_s = 0, probed_s = 0;
        std::int64_t last = 0; // number of the last advance that was performed
    };

    Session &take_task() {
        if (!has_task_) throw Error("there is no task to answer: call next() first");
        has_task_ = false;
        return *at_work_;
    }

    void fault(Session &session, detail::Status status, const std::string &why) {
        session.frames[detail::STATUS][lane_] = status;
        session.takes_steps[lane_] = false;
        faults_[std::int64_t(lane_)] = detail::brief(why);
        ++lane_;
    }

    // The next lane of the advance at hand with something to do for the simulator.
    bool next_lane(Task &task) {
        Session &session = *at_work_;
        for (; lane_ < session.copies.size(); ++lane_) {
            const unsigned char op = asked_[0][lane_];
            if (op == detail::LEAVE) continue;
            if (op == detail::STEP && !session.takes_steps[lane_]) {
                fault(session, detail::RAISED, "step without a reset before it");
                --lane_;
                continue;
            }
            task_is_reset_ = task.is_reset = op == detail::RESET;
            session.takes_steps[lane_] = false;
            task.copy = session.copies[lane_];
            task.seed = *detail::item<std::uint64_t>(asked_[1], lane_);
            const std::size_t first = lane_ * detail::elements(spec_.action.shape);
            task.action = Action();
            if (spec_.action.kind == "box") task.action.values = detail::item<float>(asked_[2], first);
            else task.action.choices = detail::item<std::int64_t>(asked_[2], first);
            show_outcome(session);
            has_task_ = true;
            return true;
        }
        return false;
    }

    void show_outcome(Session &session) {
        outcome_.reward = 0, outcome_.terminated = outcome_.truncated = false;
        outcome_.leaves.clear();
        for (std::size_t frame = detail::first_leaf(spec_); frame < session.frames.size(); ++frame)
            outcome_.leaves.push_back(session.frames[frame].data() +
                                      lane_ * (session.frames[frame].size() / session.copies.size()));
        metrics_.assign(spec_.episode_metrics.size(), std::nan(""));
        outcome_.metrics = metrics_.data();
    }

    std::string forbidden_outcome() const {
        if (!std::isfinite(outcome_.reward)) return "reward: expected a finite number";
        return forbidden_observation();
    }

    std::string forbidden_observation() const {
        for (std::size_t i = 0; i < spec_.observation.size(); ++i) {
            const Leaf &leaf = spec_.observation[i];
            const std::size_t size = detail::elements(leaf.shape);
            const auto *image = outcome_.leaves[i];
            const auto is_outside = [&leaf](unsigned char pixel) { return pixel < leaf.low || pixel > leaf.high; };
            if (leaf.kind == "vector" &&
                !std::all_of(outcome_.vector(i), outcome_.vector(i) + size, [](float x) { return std::isfinite(x); }))
                return leaf.name + ": expected finite numbers";
            if (leaf.kind == "discrete" && (outcome_.discrete(i) < 0 || outcome_.discrete(i) >= leaf.n))
                return leaf.name + ": expected an integer in 0.." + std::to_string(leaf.n - 1);
            if (leaf.kind == "image" && (leaf.low > 0 || leaf.high < 255) &&
                std::any_of(image, image + size, is_outside))
                return leaf.name + ": expected values within its bounds";
        }
        return "";
    }

    // Keeps the answer and sends it.
    void finish() {
        Session &session = *at_work_;
        detail::Writer out = detail::begin_header("advanced", 4);
        out.text("epoch"), out.binary(epoch_);
        out.text("session"), out.integer(session.number);
        out.text("number"), out.integer(session.last + 1);
        out.text("faults"), out.map(faults_.size());
        for (const auto &[lane, words] : faults_) out.integer(lane), out.text(words);
        session.header = std::move(out.bytes);
        session.last += 1;
        session.seen_s = detail::now_s();
        at_work_ = nullptr;
        ++counts_["performed"];
        send_answer(session);
    }

    void serve_one() {
        detail::Parts parts;
        std::size_t count = 0;
        if (!detail::receive(router_.get(), parts, detail::MOST_REQUEST_PARTS, count)) return;
        if (count < 2 || count > detail::MOST_REQUEST_PARTS) {
            ++counts_["dropped"];
            return;
        }
        const detail::Bytes &route = parts[0];
        try {
            const detail::Request request = detail::decode_request(parts[1]);
            if (request.kind == "advance") return advance(request, parts);
            if (count > 2) throw detail::Malformed("frames behind a message that has none");
            if (request.kind == "hello") {
                make_room(request);
                send(route, answer_hello(request, route));
            } else if (request.kind == "ping") {
                send(route, pong(request.number, counts_));
            } else if (request.epoch == epoch_ && sessions_.count(request.session)) {
                free_session(request.session);
            }
        } catch (const detail::OtherVersion &other) {
            send(route, refuse(0, "this server speaks protocol 1 and the message " + std::string(other.what())));
        } catch (const detail::Malformed &) {
            ++counts_["dropped"];
        }
    }

    void advance(const detail::Request &request, detail::Parts &parts) {
        const auto found = request.epoch == epoch_ ? sessions_.find(request.session) : sessions_.end();
        if (found == sessions_.end()) {
            ++counts_["lost"];
            detail::Writer out = detail::begin_header("lost", 2);
            out.text("epoch"), out.binary(epoch_);
            out.text("number"), out.integer(request.number);
            send(parts[0], out.bytes);
            return;
        }
        Session &session = found->second;
        session.route = parts[0], session.seen_s = detail::now_s();
        if (request.number == session.last) {
            ++counts_["answered_again"];
            send_answer(session);
            return;
        }
        std::string refused;
        if (request.number - 1 != session.last) refused = "number " + std::to_string(session.last + 1) + " is next";
        else if (!detail::fits(detail::request_bytes(spec_, session.copies.size()), parts, 2))
            refused = "not the frames of an advance here";
        else refused = forbidden_request(parts, session.copies.size());
        if (!refused.empty()) {
            send(parts[0], refuse(request.number, refused));
            return;
        }
        asked_.assign(std::make_move_iterator(parts.begin() + 2), std::make_move_iterator(parts.end()));
        for (const auto frame : {detail::STATUS, detail::REWARD, detail::TERMINATED, detail::TRUNCATED})
            std::fill(session.frames[frame].begin(), session.frames[frame].end(), 0);
        if (!spec_.episode_metrics.empty())
            std::fill_n(detail::item<double>(session.frames[detail::METRICS], 0),
                        session.frames[detail::METRICS].size() / 8, std::nan(""));
        faults_.clear();
        at_work_ = &session, lane_ = 0;
    }

    // Why an advance must not reach the simulator, or nothing.
    std::string forbidden_request(const detail::Parts &parts, std::size_t lanes) const {
        const std::size_t size = detail::elements(spec_.action.shape);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            if (parts[2][lane] > detail::RESET) return "an op above 2";
            if (parts[2][lane] != detail::STEP) continue;
            for (std::size_t i = 0; i < size; ++i) {
                if (spec_.action.kind == "box") {
                    if (!std::isfinite(*detail::item<float>(parts[4], lane * size + i)))
                        return "an action that is not finite";
                } else {
                    const std::int64_t choice = *detail::item<std::int64_t>(parts[4], lane * size + i);
                    if (choice < 0 || choice >= spec_.action.nvec[i]) return "an action outside its choices";
                }
            }
        }
        return "";
    }

    detail::Bytes answer_hello(const detail::Request &hello, const detail::Bytes &route) {
        for (auto &[number, session] : sessions_)
            if (session.client == hello.client) {
                session.route = route, session.seen_s = detail::now_s();
                return welcome(session, hello.client);
            }
        const auto lanes = std::size_t(hello.lanes);
        const std::string wanted = std::to_string(lanes) + " lanes wanted, and ";
        if (lanes > most_lanes_)
            return refuse(0, wanted + std::to_string(most_lanes_) + " are the most here: serve more copies");
        if (lanes > free_.size())
            return refuse(0, wanted + std::to_string(free_.size()) + " are free: serve more copies", true);
        Session session;
        session.number = detail::random_number(); // not to be guessed: whoever knows it may step these copies
        session.client = hello.client, session.route = route, session.seen_s = detail::now_s();
        session.takes_steps.assign(lanes, false);
        for (const std::size_t bytes : detail::answer_bytes(spec_, lanes)) session.frames.emplace_back(bytes, 0);
        for (std::size_t lane = 0; lane < lanes; ++lane) session.copies.push_back(free_.back()), free_.pop_back();
        const std::int64_t number = session.number;
        return welcome(sessions_[number] = std::move(session), hello.client);
    }

    detail::Bytes welcome(const Session &session, const std::string &client) const {
        detail::Writer out = detail::begin_header("welcome", 7);
        out.text("client"), out.binary(client);
        out.text("epoch"), out.binary(epoch_);
        out.text("session"), out.integer(session.number);
        out.text("lanes"), out.integer(std::int64_t(session.copies.size()));
        out.text("most_lanes"), out.integer(std::int64_t(most_lanes_));
        out.text("env"), out.text(spec_.name);
        out.text("spec"), detail::write_spec(out, spec_);
        return out.bytes;
    }

    detail::Bytes refuse(std::int64_t number, const std::string &reason, bool busy = false) {
        ++counts_["refused"];
        detail::Writer out = detail::begin_header("refused", 3);
        out.text("number"), out.integer(number);
        out.text("reason"), out.text(detail::brief(reason));
        out.text("busy"), out.boolean(busy);
        return out.bytes;
    }

    detail::Bytes pong(std::int64_t number, const std::map<std::string, std::int64_t> &counts) const {
        detail::Writer out = detail::begin_header("pong", 3);
        out.text("number"), out.integer(number);
        out.text("epoch"), out.binary(epoch_);
        out.text("counts"), out.map(counts.size());
        for (const auto &[name, count] : counts) out.text(name), out.integer(count);
        return out.bytes;
    }

    // Frees sessions nobody uses, as far as that is needed: those not heard of for longest first.
    void make_room(const detail::Request &hello) {
        std::vector<Session *> idle;
        for (auto &[number, session] : sessions_) {
            if (session.client == hello.client) return;
            idle.push_back(&session);
        }
        if (std::size_t(hello.lanes) > most_lanes_) return;
        std::sort(idle.begin(), idle.end(), [](const Session *a, const Session *b) { return a->seen_s < b->seen_s; });
        for (Session *session : idle) {
            if (std::size_t(hello.lanes) <= free_.size()) return;
            const double silent_s = detail::now_s() - session->seen_s;
            if (silent_s > options_.idle_s || (silent_s > detail::GONE_S && is_gone(*session)))
                free_session(session->number);
        }
    }

    // Whether nothing can be sent there any more; clients drop answers that they did not ask for.
    bool is_gone(Session &session) {
        if (detail::now_s() - session.probed_s < detail::GONE_S / 5) return false;
        session.probed_s = detail::now_s();
        return !send(session.route, pong(0, {}));
    }

    void free_session(std::int64_t number) {
        const auto found = sessions_.find(number);
        free_.insert(free_.end(), found->second.copies.begin(), found->second.copies.end());
        sessions_.erase(found);
        ++counts_["freed"];
    }

    bool send(const detail::Bytes &route, const detail::Bytes &header) {
        if (!detail::send_part(router_.get(), route, true)) return zmq_errno() != EHOSTUNREACH;
        detail::send_part(router_.get(), header, false);
        return true;
    }

    void send_answer(const Session &session) { // to where the request at hand came from
        if (!detail::send_part(router_.get(), session.route, true)) return;
        detail::send_part(router_.get(), session.header, true);
        for (std::size_t i = 0; i < session.frames.size(); ++i)
            detail::send_part(router_.get(), session.frames[i], i + 1 < session.frames.size());
    }

    void bind(const std::string &address) {
        const std::string secret = options_.keys.empty() ? "" : detail::read_key(options_.keys, "server.secret");
        if (address.rfind("ipc://", 0) == 0) detail::check_socket_folder(address);
        router_ = detail::open_socket(context_.get(), ZMQ_ROUTER);
        detail::set_option(router_, ZMQ_LINGER, detail::LINGER_MS);
        detail::set_most_bytes(router_, most_bytes_);
        detail::set_option(router_, ZMQ_RCVHWM, detail::QUEUED_MESSAGES);
        detail::set_option(router_, ZMQ_SNDHWM, detail::QUEUED_MESSAGES);
        detail::set_option(router_, ZMQ_HANDSHAKE_IVL, detail::HANDSHAKE_MS);
        detail::set_option(router_, ZMQ_ROUTER_MANDATORY, 1); // a client that is gone is noticed when it is written to
        detail::set_option(router_, ZMQ_IPV6, address.find('[') != std::string::npos);
        try {
            if (!secret.empty()) {
                guard_ = std::make_unique<detail::Guard>(context_.get(), detail::read_client_keys(options_.keys));
                detail::set_option(router_, ZMQ_CURVE_SERVER, 1);
                detail::set_option(router_, ZMQ_CURVE_SECRETKEY, secret);
                detail::set_option(router_, ZMQ_CURVE_PUBLICKEY, detail::public_key(secret));
            }
            const mode_t before = umask(077);
            const int bound = zmq_bind(router_.get(), address.c_str());
            umask(before);
            if (bound != 0) throw detail::zmq_error(address + " cannot be bound");
        } catch (...) {
            close();
            throw;
        }
        char endpoint[1024] = {};
        std::size_t size = sizeof endpoint;
        zmq_getsockopt(router_.get(), ZMQ_LAST_ENDPOINT, endpoint, &size);
        address_ = endpoint;
    }

    void listen_to_signals() {
        if (pipe(wake_) != 0) throw Error("no pipe can be opened");
        for (const int end : wake_) fcntl(end, F_SETFL, O_NONBLOCK), fcntl(end, F_SETFD, FD_CLOEXEC);
        if (!options_.stop_by_signals) return;
        detail::was_signalled = false;
        detail::signal_pipe = wake_[1];
        struct sigaction action{};
        action.sa_handler = detail::on_signal;
        sigaction(SIGTERM, &action, &before_[0]);
        sigaction(SIGINT, &action, &before_[1]);
        has_handlers_ = true;
    }

    void close() {
        if (has_handlers_) {
            sigaction(SIGTERM, &before_[0], nullptr);
            sigaction(SIGINT, &before_[1], nullptr);
            detail::signal_pipe = -1, has_handlers_ = false;
        }
        router_.reset();
        if (context_) zmq_ctx_shutdown(context_.get());
        guard_.reset();
        context_.reset();
        for (int &end : wake_)
            if (end >= 0) ::close(end), end = -1;
    }

    Spec spec_;
    ServerOptions options_;
    detail::Context context_;
    detail::Socket router_;
    std::unique_ptr<detail::Guard> guard_;
    int wake_[2] = {-1, -1};
    struct sigaction before_[2] = {};
    bool has_handlers_ = false;
    std::atomic<bool> is_stopping_{false};
    std::string address_, epoch_;
    std::size_t most_lanes_ = 0, most_bytes_ = detail::REQUEST_HEADER_BYTES;
    std::map<std::int64_t, Session> sessions_;
    std::vector<std::size_t> free_;
    std::map<std::string, std::int64_t> counts_ = {{"performed", 0}, {"answered_again", 0}, {"refused", 0},
                                                   {"lost", 0},      {"dropped", 0},        {"freed", 0}};
    // The advance at hand:
    Session *at_work_ = nullptr;
    detail::Parts asked_;
    std::size_t lane_ = 0;
    bool has_task_ = false, task_is_reset_ = false;
    Outcome outcome_;
    std::vector<double> metrics_;
    std::map<std::int64_t, std::string> faults_;
};

// One copy of an environment. An exception is a fault of this copy alone, which is made anew for its next reset.
class Simulator {
  public:
    virtual ~Simulator() = default;
    virtual void reset(std::uint64_t seed, Outcome &outcome) = 0;
    virtual void step(const Action &action, Outcome &outcome) = 0;
};

using MakeSimulator = std::function<std::unique_ptr<Simulator>()>;

// Serves until SIGTERM or Ctrl-C comes; each copy is made when it is first needed.
inline void serve(const std::string &address, std::size_t copies, const Spec &spec, const MakeSimulator &make,
                  const ServerOptions &options = {}) {
    Server server(address, copies, spec, options);
    std::printf("serving %s at %s (at most %zu copies)\n", server.spec().name.c_str(), server.address().c_str(),
                copies);
    std::fflush(stdout);
    std::vector<std::unique_ptr<Simulator>> simulators(copies);
    Task task;
    while (server.next(task)) {
        std::unique_ptr<Simulator> &simulator = simulators[task.copy];
        try {
            if (!simulator) simulator = make();
            if (task.is_reset) simulator->reset(task.seed, server.outcome());
            else simulator->step(task.action, server.outcome());
        } catch (const std::exception &error) {
            simulator.reset();
            server.failed(error.what());
            continue;
        }
        server.done();
    }
    std::string said;
    for (const auto &[name, count] : server.counts())
        said += (said.empty() ? "" : ", ") + name + " " + std::to_string(count);
    std::printf("%s\n", said.c_str());
}

} // namespace whorl

#endif
