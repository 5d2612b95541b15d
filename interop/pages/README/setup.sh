mkdir -p target/release && ln -s "$(command -v tieline)" target/release/tieline
