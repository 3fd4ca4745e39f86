"""Naming schemes by file format and family.

A family adds a line to each format it is published in.
"""

from vit_jax.registry import Registry

_ROOM = "vit_jax.weights.spellings"

# model_type of config.json -> record `HuggingFace`.
HUGGINGFACE = Registry(
  "model_type",
  {
    # First, as everything without a form of its own is written as a ViT.
    "beit": f"{_ROOM}.vit.beit:HUGGINGFACE",
    "dinov3_vit": f"{_ROOM}.vit.dinov3_huggingface:HUGGINGFACE",
    "dinov2": f"{_ROOM}.vit.dinov2:DINOV2",
    "dinov2_with_registers": f"{_ROOM}.vit.dinov2:DINOV2_WITH_REGISTERS",
    "vit": f"{_ROOM}.vit.huggingface:VIT",
    "deit": f"{_ROOM}.vit.huggingface:DEIT",
    "vit_mae": f"{_ROOM}.vit.huggingface:VIT_MAE",
    "bit": f"{_ROOM}.resnet.huggingface:BIT",
    "convnext": f"{_ROOM}.convnext.huggingface:CONVNEXT",
    "convnextv2": f"{_ROOM}.convnext.huggingface:CONVNEXT_V2",
    "dinov3_convnext": f"{_ROOM}.convnext.huggingface:DINOV3",
    "swin": f"{_ROOM}.swin.huggingface:SWIN",
    "swinv2": f"{_ROOM}.swin.huggingface:SWIN_V2",
    "pvt_v2": f"{_ROOM}.pvt.huggingface:PVT_V2",
    "clip": f"{_ROOM}.two_towers.huggingface:CLIP",
    "siglip": f"{_ROOM}.two_towers.huggingface:SIGLIP",
    "clip_vision_model": f"{_ROOM}.two_towers.huggingface_vision:CLIP",
    "siglip_vision_model": f"{_ROOM}.two_towers.huggingface_vision:SIGLIP",
  },
)
# model_type of two towers -> record `HuggingFace` of the image tower under a
# classifier.
HUGGINGFACE_CLASSIFIERS = Registry(
  "model_type",
  {
    "clip": f"{_ROOM}.two_towers.huggingface_vision:CLIP_CLASSIFIER",
    "siglip": f"{_ROOM}.two_towers.huggingface_vision:SIGLIP_CLASSIFIER",
  },
)
# model_type of networks that are not ours -> a clause about them.
HUGGINGFACE_OTHERS = dict.fromkeys(
  ("siglip2", "siglip2_vision_model"),
  "is SigLIP 2 of variable resolution (NaFlex), whose patches are vectors and"
  " whose positions are resized for each image; our networks have one"
  " resolution. Take SigLIP 2 of a fixed one, such as"
  " google/siglip2-base-patch16-224",
)
# model.name -> record `Timm`.
TIMM = Registry(
  "architecture",
  {
    # First, as they have everything that identifies a ViT.
    "swin": f"{_ROOM}.swin.timm:TIMM",
    "pvt": f"{_ROOM}.pvt.timm:TIMM",
    "beit": f"{_ROOM}.vit.beit:TIMM",
    # Before those whose names its own begin with.
    "dinov3": f"{_ROOM}.vit.dinov3:TIMM",
    # After BEiT, which has no key bias either.
    "eva02": f"{_ROOM}.vit.eva02:TIMM",
    "vit": f"{_ROOM}.vit.timm:TIMM",
    "resnet": f"{_ROOM}.resnet.timm:TIMM",
    "convnext": f"{_ROOM}.convnext.timm:TIMM",
  },
)
# timm class -> record `TimmWriter`.
TIMM_WRITERS = Registry(
  "class",
  {
    "swin": f"{_ROOM}.swin.timm_write:WRITER",
    "pvt": f"{_ROOM}.pvt.timm_write:WRITER",
    "resnet": f"{_ROOM}.resnet.timm_write:WRITER",
    "convnext": f"{_ROOM}.convnext.timm_write:WRITER",
    # First, as everything without a form of its own is a VisionTransformer.
    "beit": f"{_ROOM}.vit.beit_write:WRITER",
    "eva": f"{_ROOM}.vit.eva02_write:WRITER",
    "vit": f"{_ROOM}.vit.timm_write:WRITER",
  },
)
# model.name -> record `Npz`.
NPZ = Registry(
  "model.name",
  {
    # First, as a ViT is part of it.
    "two_towers": f"{_ROOM}.two_towers.npz:NPZ",
    "vit": f"{_ROOM}.vit.npz:NPZ",
    "resnet": f"{_ROOM}.resnet.npz:NPZ",
  },
)
# model.name, or form of a file -> record `Original`.
ORIGINAL = Registry(
  "model.name",
  {
    "two_towers": f"{_ROOM}.two_towers.open_clip:ORIGINAL",
    # First, as only the authors' file has a merging in its first stage.
    "swin": f"{_ROOM}.swin.original:ORIGINAL",
    "timm_swin": f"{_ROOM}.timm_pickles:SWIN",
    "timm_convnext": f"{_ROOM}.timm_pickles:CONVNEXT",
    "timm_resnet": f"{_ROOM}.timm_pickles:RESNET",
    # First, as it has all that identifies a BEiT.
    "beitv2": f"{_ROOM}.vit.beit:SECOND",
    "beit": f"{_ROOM}.vit.beit:ORIGINAL",
    "vqkd": f"{_ROOM}.vit.vqkd:ORIGINAL",
    # First, as it has all that identifies a ViT.
    "dinov3": f"{_ROOM}.vit.dinov3:ORIGINAL",
    "eva02": f"{_ROOM}.vit.eva02:ORIGINAL",
    "vit": f"{_ROOM}.vit.original:ORIGINAL",
    "fcmae": f"{_ROOM}.convnext.fcmae:ORIGINAL",
    "convnext": f"{_ROOM}.convnext.original:ORIGINAL",
    "pvt": f"{_ROOM}.pvt.original:ORIGINAL",
  },
)
