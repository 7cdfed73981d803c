"""Looks 50 random keys up, again and again: traffic.py URL [SECONDS]."""

import json
import random
import sys
import time
import urllib.error
import urllib.request

url = sys.argv[1] + "/v1/shop/products:batchGet"
end = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 600)
lookups = failed = 0
while time.monotonic() < end:
    keys = [f"sku-{n:05}" for n in random.sample(range(1, 2001), 50)]
    request = urllib.request.Request(url, json.dumps({"keys": keys}).encode(), {"Content-Type": "application/json"})
    lookups += 1
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            json.load(answer)
    except urllib.error.URLError as error:
        failed += 1
        print(error, file=sys.stderr)
    time.sleep(1 / 50)
print(f"{lookups} lookups, {failed} failed")
