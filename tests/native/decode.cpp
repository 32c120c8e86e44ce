// Says of each header on stdin what the decoder makes of it. A header is 'q' (to a server) or 'a' (to a client), its length
// in four bytes, little-endian, and its bytes.
#include "whorl.hpp"

#include <iostream>

int main() {
    char side;
    while (std::cin.get(side)) {
        std::uint32_t size = 0;
        std::cin.read(reinterpret_cast<char *>(&size), 4);
        whorl::detail::Bytes header(size);
        std::cin.read(reinterpret_cast<char *>(header.data()), size);
        try {
            if (side == 'q') {
                const auto request = whorl::detail::decode_request(header);
                std::cout << request.kind << ' ' << request.number << '\n';
            } else {
                const auto answer = whorl::detail::decode_answer(header);
                std::cout << answer.kind << ' ' << answer.number << '\n';
            }
        } catch (const whorl::detail::OtherVersion &other) {
            std::cout << "version " << other.version << '\n';
        } catch (const whorl::detail::Malformed &) {
            std::cout << "malformed\n";
        }
    }
}
