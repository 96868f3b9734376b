// The weighted walk of flux-accounting's share tree, written anew for bench/flux_tree.py: what C++ takes for it.
//
// Rules, from the documentation of flux-accounting ("Fair-Share Calculation") and the behaviour of its src/fairness:
//   weight = (shares / sum of siblings' shares) / (usage / sum of siblings' usage); 0 without shares, 2^64 if idle;
//   siblings are walked by weight, the highest first; where weights tie, users come before banks;
//   two weights tie if they differ by less than 2^-52 of the larger one, which counts as 1 at least;
//   the members of banks that follow each other and tie are walked as one list, sorted by the weights they have;
//   fairshare = (number of users - users strictly ahead) / number of users; at last, users are sorted by it.
// Objects that are shared by pointers, and columns of numbers as a database gives them, are as there.
//
// Arguments: a file of columns (int64 n, int64 parent[n], uint64 shares[n], uint64 usage[n], uint8 is_user[n]; parents
// come first) and a file for the result. Each line of standard input is a round: a fresh tree, then the timed walk, and
// its seconds of processor time on standard output. At the end of the input the users strictly ahead of each entry are written, as
// int64; -1 for banks.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <time.h>

namespace {

struct Columns {
    std::vector<std::int64_t> parent;
    std::vector<std::uint64_t> shares, usage;
    std::vector<std::uint8_t> is_user;
};

template <typename T>
std::vector<T> read_column(std::ifstream &file, std::size_t n) {
    std::vector<T> column(n);
    file.read(reinterpret_cast<char *>(column.data()), static_cast<std::streamsize>(n * sizeof(T)));
    return column;
}

Columns read_columns(const char *path) {
    std::ifstream file(path, std::ios::binary);
    const auto n = static_cast<std::size_t>(read_column<std::int64_t>(file, 1)[0]);
    Columns columns;
    columns.parent = read_column<std::int64_t>(file, n);
    columns.shares = read_column<std::uint64_t>(file, n);
    columns.usage = read_column<std::uint64_t>(file, n);
    columns.is_user = read_column<std::uint8_t>(file, n);
    if (!file) throw std::runtime_error("the file of columns is cut");
    return columns;
}

struct Entry;
using Link = std::shared_ptr<Entry>;

struct Entry {
    std::string name;
    std::size_t number;
    bool is_user;
    std::uint64_t shares, usage;
    double weight = 0.0, fairshare = 0.0;
    std::vector<Link> members;
};

constexpr double idle_weight = 18446744073709551616.0;

bool ties(double a, double b) {
    return std::fabs(a - b) < 0x1p-52 * std::max({a, b, 1.0});
}

bool is_before(const Link &a, const Link &b) {
    if (a->is_user != b->is_user && ties(a->weight, b->weight)) return a->is_user;
    return a->weight > b->weight;
}

void sort_members(std::vector<Link> &members) {
    std::sort(members.begin(), members.end(), is_before);
}

void weigh_members(Entry &bank) {
    std::uint64_t all_shares = 0, all_usage = 0;
    for (const Link &member : bank.members) {
        all_shares += member->shares;
        all_usage += member->usage;
    }
    for (const Link &member : bank.members) {
        if (member->shares == 0) {
            member->weight = 0.0;
        } else if (member->usage == 0) {
            member->weight = idle_weight;
        } else {
            const double target = static_cast<double>(member->shares) / static_cast<double>(all_shares);
            const double actual = static_cast<double>(member->usage) / static_cast<double>(all_usage);
            member->weight = target / actual;
        }
    }
    sort_members(bank.members);
}

class Walk {
  public:
    explicit Walk(std::size_t n_users) : n_users_(n_users), left_(n_users) { users_.reserve(n_users); }

    std::vector<Link> run(Entry &root) {
        weigh_members(root);
        visit(root.members);
        std::sort(users_.begin(), users_.end(),
                  [](const Link &a, const Link &b) { return a->fairshare > b->fairshare; });
        return std::move(users_);
    }

  private:
    // `members` are weighed and sorted.
    void visit(const std::vector<Link> &members) {
        for (const Link &member : members) weigh_members(*member);
        for (std::size_t at = 0; at < members.size();) {
            std::size_t end = at + 1;
            while (end < members.size() && members[end]->is_user == members[at]->is_user &&
                   ties(members[end - 1]->weight, members[end]->weight))
                ++end;
            if (members[at]->is_user) {
                rank(members, at, end);
            } else if (end == at + 1) {
                visit(members[at]->members);
            } else {
                std::vector<Link> merged;
                for (std::size_t bank = at; bank < end; ++bank)
                    merged.insert(merged.end(), members[bank]->members.begin(), members[bank]->members.end());
                sort_members(merged);
                visit(merged);
            }
            at = end;
        }
    }

    void rank(const std::vector<Link> &members, std::size_t at, std::size_t end) {
        const double fairshare = static_cast<double>(left_) / static_cast<double>(n_users_);
        left_ -= end - at;
        for (; at < end; ++at) {
            members[at]->fairshare = fairshare;
            users_.push_back(members[at]);
        }
    }

    std::size_t n_users_, left_;
    std::vector<Link> users_;
};

Link build(const Columns &columns) {
    std::vector<Link> entries;
    entries.reserve(columns.parent.size());
    for (std::size_t number = 0; number < columns.parent.size(); ++number) {
        auto entry = std::make_shared<Entry>();
        entry->name = (columns.is_user[number] ? "user" : "bank") + std::to_string(number);
        entry->number = number;
        entry->is_user = columns.is_user[number] != 0;
        entry->shares = columns.shares[number];
        entry->usage = columns.usage[number];
        if (number > 0) entries[static_cast<std::size_t>(columns.parent[number])]->members.push_back(entry);
        entries.push_back(std::move(entry));
    }
    return entries.front();
}

double cpu_s() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void write_ahead(const char *path, const std::vector<Link> &users, std::size_t n) {
    std::vector<std::int64_t> ahead(n, -1);
    for (const Link &user : users) {
        const auto n_users = static_cast<double>(users.size());
        ahead[user->number] = std::llround(n_users - user->fairshare * n_users);
    }
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(ahead.data()), static_cast<std::streamsize>(n * sizeof(ahead[0])));
}

}  // namespace

int main(int n_arguments, char **arguments) {
    if (n_arguments != 3) return 2;
    const Columns columns = read_columns(arguments[1]);
    const auto n_users = static_cast<std::size_t>(std::count(columns.is_user.begin(), columns.is_user.end(), 1));
    std::cout.precision(17);
    std::vector<Link> users;
    for (std::string line; std::getline(std::cin, line);) {
        users.clear();
        const Link root = build(columns);
        const double began = cpu_s();
        users = Walk(n_users).run(*root);
        std::cout << cpu_s() - began << std::endl;
    }
    write_ahead(arguments[2], users, columns.parent.size());
}
