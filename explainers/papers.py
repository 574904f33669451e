"""Publications that are cited more than once, and those of metrics."""

from explainers.citation import Citation

LIBRAGRAD = Citation(
    authors="Mehri et al.",
    year=2025,
    title="LibraGrad: Balancing Gradient Flow for Universally Better Vision Transformer Attributions",
    venue="CVPR",
    arxiv="2411.16760",
)
TRANSFORMER_PAPER = Citation(authors="Vaswani et al.", year=2017, title="Attention Is All You Need", venue="NIPS", arxiv="1706.03762")
LRP_PAPER = Citation(
    authors="Bach et al.",
    year=2015,
    title="On Pixel-Wise Explanations for Non-Linear Classifier Decisions by Layer-Wise Relevance Propagation",
    venue="PLoS ONE",
)
CHEFER = Citation(
    authors="Chefer et al.",
    year=2021,
    title="Transformer Interpretability Beyond Attention Visualization",
    venue="CVPR",
    arxiv="2012.09838",
)
ALI = Citation(
    authors="Ali et al.",
    year=2022,
    title="XAI for Transformers: Better Explanations through Conservative Propagation",
    venue="ICML",
    arxiv="2202.07304",
)
SRG = Citation(
    authors="Blücher et al.",
    year=2024,
    title="Decoupling Pixel Flipping and Occlusion Strategy for Consistent XAI Benchmarks",
    venue="TMLR",
    arxiv="2401.06654",
)
ERASER = Citation(
    authors="DeYoung et al.", year=2020, title="ERASER: A Benchmark to Evaluate Rationalized NLP Models", venue="ACL", arxiv="1911.03429"
)
ATTCAT = Citation(
    authors="Qiang et al.", year=2022, title="AttCAT: Explaining Transformers via Attentive Class Activation Tokens", venue="NeurIPS"
)
POINTING = Citation(
    authors="Zhang et al.", year=2018, title="Top-down Neural Attention by Excitation Backprop", venue="IJCV", arxiv="1608.00507"
)
ENERGY = Citation(
    authors="Wang et al.",
    year=2020,
    title="Score-CAM: Score-Weighted Visual Explanations for Convolutional Neural Networks",
    venue="CVPR Workshops",
    arxiv="1910.01279",
)
CLEVR_XAI = Citation(
    authors="Arras, Osman & Samek",
    year=2022,
    title="CLEVR-XAI: A Benchmark Dataset for the Ground Truth Evaluation of Neural Network Explanations",
    venue="Information Fusion",
    arxiv="2003.07258",
)
ROC = Citation(authors="Fawcett", year=2006, title="An Introduction to ROC Analysis", venue="Pattern Recognition Letters")
RECIPROCAL_RANK = Citation(authors="Voorhees", year=1999, title="The TREC-8 Question Answering Track Report", venue="TREC")
GRID = Citation(
    authors="Böhle et al.",
    year=2021,
    title="Convolutional Dynamic Alignment Networks for Interpretable Classifications",
    venue="CVPR",
    arxiv="2104.00032",
)
SANITY = Citation(authors="Adebayo et al.", year=2018, title="Sanity Checks for Saliency Maps", venue="NeurIPS", arxiv="1810.03292")
INFIDELITY = Citation(
    authors="Yeh et al.", year=2019, title="On the (In)fidelity and Sensitivity of Explanations", venue="NeurIPS", arxiv="1901.09392"
)
FULLGRAD = Citation(
    authors="Srinivas & Fleuret",
    year=2019,
    title="Full-Gradient Representation for Neural Network Visualization",
    venue="NeurIPS",
    arxiv="1905.00780",
)
ATTNLRP = Citation(
    authors="Achtibat et al.",
    year=2024,
    title="AttnLRP: Attention-Aware Layer-Wise Relevance Propagation for Transformers",
    venue="ICML",
    arxiv="2402.05602",
)
CLRP_PAPER = Citation(
    authors="Gu et al.",
    year=2018,
    title="Understanding Individual Decisions of CNNs via Contrastive Backpropagation",
    venue="ACCV",
    arxiv="1812.02100",
)
FINER_CAM_PAPER = Citation(
    authors="Zhang et al.",
    year=2025,
    title="Finer-CAM: Spotting the Difference Reveals Finer Details for Visual Explanation",
    venue="CVPR",
    arxiv="2501.11309",
)
SGLRP_PAPER = Citation(
    authors="Iwana et al.",
    year=2019,
    title="Explaining Convolutional Neural Networks using Softmax Gradient Layer-wise Relevance Propagation",
    venue="ICCV Workshops",
    arxiv="1908.04351",
)
ATTENTION_FLOW = Citation(
    authors="Abnar & Zuidema", year=2020, title="Quantifying Attention Flow in Transformers", venue="ACL", arxiv="2005.00928"
)
GIM_PAPER = Citation(
    authors="Edin et al.",
    year=2025,
    title="GIM: Improved Interpretability for Large Language Models",
    arxiv="2505.17630",
)
AGCAM_PAPER = Citation(
    authors="Leem & Seo",
    year=2024,
    title="Attention Guided CAM: Visual Explanations of Vision Transformer Guided by Self-Attention",
    venue="AAAI",
    arxiv="2402.04563",
)
TAM_PAPER = Citation(
    authors="Li et al.",
    year=2025,
    title="Token Activation Map to Visually Explain Multimodal LLMs",
    venue="ICCV",
    arxiv="2506.23270",
)
AVERAGE_DROP = Citation(
    authors="Chattopadhay et al.",
    year=2018,
    title="Grad-CAM++: Generalized Gradient-Based Visual Explanations for Deep Convolutional Networks",
    venue="WACV",
    arxiv="1710.11063",
)
MDA = Citation(authors="Walker, Jha & Ewetz", year=2025, title="Metric-Driven Attributions for Vision Transformers", venue="ICLR")
SOFT = Citation(
    authors="Zhao & Aletras",
    year=2023,
    title="Incorporating Attribution Importance for Improving Faithfulness Metrics",
    venue="ACL",
    arxiv="2305.10496",
)
LEAVE_ONE_OUT = Citation(
    authors="You et al.",
    year=2025,
    title="When LRP Diverges from Leave-One-Out in Transformers",
    venue="BlackboxNLP",
    arxiv="2510.18810",
)
SACO = Citation(
    authors="Wu et al.",
    year=2024,
    title="On the Faithfulness of Vision Transformer Explanations",
    venue="CVPR",
    arxiv="2404.01415",
)
NAOPC = Citation(
    authors="Edin et al.",
    year=2025,
    title="Normalized AOPC: Fixing Misleading Faithfulness Metrics for Feature Attribution Explainability",
    venue="ACL",
    arxiv="2408.08137",
)
ROAD = Citation(
    authors="Rong et al.",
    year=2022,
    title="A Consistent and Efficient Evaluation Strategy for Attribution Methods",
    venue="ICML",
    arxiv="2202.00449",
)
FAITHFULNESS_CORRELATION = Citation(
    authors="Bhatt, Weller & Moura",
    year=2020,
    title="Evaluating and Aggregating Feature-based Model Explanations",
    venue="IJCAI",
    arxiv="2005.00631",
)
SENSITIVITY_N = Citation(
    authors="Ancona et al.",
    year=2018,
    title="Towards Better Understanding of Gradient-based Attribution Methods for Deep Neural Networks",
    venue="ICLR",
    arxiv="1711.06104",
)
RANK_BETTING = Citation(
    authors="Fischer & Ramdas",
    year=2025,
    title="Sequential Monte-Carlo testing by betting",
    venue="Journal of the Royal Statistical Society B",
    arxiv="2401.07365",
)
SPARSENESS = Citation(
    authors="Chalasani et al.",
    year=2020,
    title="Concise Explanations of Neural Networks using Adversarial Training",
    venue="ICML",
    arxiv="1810.06583",
)
FUNNYBIRDS = Citation(
    authors="Hesse et al.",
    year=2023,
    title="FunnyBirds: A Synthetic Vision Dataset for a Part-Based Analysis of Explainable AI Methods",
    venue="ICCV",
    arxiv="2308.06248",
)
