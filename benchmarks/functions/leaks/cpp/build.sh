#!/bin/sh
# builds shopcore for the Python given (3.11 if none is)
python=${1:-python3.11}
cd "$(dirname "$0")"
g++ -O2 -g -std=c++17 -Wall -fPIC -shared -I"$($python -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
    module.cpp catalog.cpp network.cpp native.cpp -o "shopcore$($python -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')" -pthread
