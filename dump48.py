import json,glob,sys
n=sys.argv[1]; d=sys.argv[2] if len(sys.argv)>2 else "chapters"
f=glob.glob(f"{d}/{n}_*.ipynb")[0]
for i,c in enumerate(json.load(open(f))["cells"]):
    print(f"--- [{i}] {c['cell_type']} {c.get('id')}")
    print("".join(c["source"]))
