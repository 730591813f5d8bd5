# %% [markdown]
# # Up to which load does a hedge help?
#
# A service has 10 shards of 2 replicas. Queries take 5 ms on average, and one copy in a few hundred
# takes 75 ms more. The cell markers are those of notebooks and editors; the file also runs as a script.

# %%
import curtail

service = {"shards": 10, "service_time": "exp:5ms", "requests": 5_000}

# %% [markdown]
# One experiment: a row per policy, and its difference to the first one with a confidence interval.

# %%
table = curtail.simulate(["psq", "laedge:cc", "o1"], **service, jitter="bimodal:0.003:75ms")
frame = table.to_pandas()
columns = ["policy", "request.p50", "request.p99", "ci95.p99", "versus_first.difference.p99"]
print(frame[columns].round(2).to_string(index=False))

# %% [markdown]
# A grid: the gain as a function of the load and of the frequency of hiccups.

# %%
grid = {"p": [0.001, 0.003, 0.01], "utilization": "0.1..0.5:0.2"}
results = curtail.sweep(grid, ["psq", "laedge:cc"], **service, jitter="bimodal:{p}:75ms").to_pandas()
p99 = results.pivot(index=["p", "utilization"], columns="policy", values="request.p99")
gain = (1 - p99["laedge:cc"] / p99["psq"]).unstack("utilization")
print("\nby how much p99 is lower with laedge:cc")
print((100 * gain).round(0).to_string(float_format="{:.0f} %".format, na_rep="unstable"))

# %% [markdown]
# Which distribution fits measured service times?

# %%
times = [0.4, 0.9, 1.3, 1.8, 2.4, 3.0, 3.7, 4.6, 5.5, 6.6, 7.9, 9.6, 11.8, 15.0, 21.4]
fits = curtail.fit(times, unit="ms")
print(f"\nbest fit: {fits.best}")
print(fits.to_pandas()[["family", "aic", "ks"]].round(3).to_string(index=False))
